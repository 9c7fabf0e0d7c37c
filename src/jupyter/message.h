// Messages of the Jupyter protocol (5.3 to 5.5) as parts of a ZeroMQ message: built and signed, verified and read. The
// content stays JSON text until it is needed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "zmtp/peer.h"

namespace cella::jupyter {

struct Message {
  std::string id;
  std::string type;
  std::string parent_id;  // the request that this belongs to; empty: none
  std::string parent_type;
  std::string metadata;  // JSON text
  std::string content;   // JSON text
  uint64_t skipped = 0;  // bytes of a content that was too large: it is empty
};

// Of one client: names it in the messages, and signs them.
class Signer {
 public:
  Signer(std::string key, std::string session, std::string user)
      : key_(std::move(key)), session_(std::move(session)), user_(std::move(user)) {}

  const std::string& session() const { return session_; }

  struct Outgoing {
    std::string id;
    std::vector<std::string> parts;
  };
  // `content` is JSON text. Each message has an id of its own.
  Outgoing Make(std::string_view type, std::string content);
  // An answer to `parent`, which the kernel asked.
  Outgoing MakeReply(std::string_view type, std::string content, const Message& parent);

  // kInvalid: it is no message, or its signature is wrong. A message whose content was skipped cannot be verified.
  Result<Message> Read(const zmtp::Message& message) const;

 private:
  Outgoing Assemble(std::string_view type, std::string content, std::string parent_header);
  std::string Sign(std::string_view header, std::string_view parent, std::string_view metadata,
                   std::string_view content) const;

  std::string key_;  // empty: nothing is signed
  std::string session_;
  std::string user_;
  uint64_t sent_ = 0;
};

}  // namespace cella::jupyter
