#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cella {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kBlock = 64;

using State = std::array<uint32_t, 8>;

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void Compress(State& state, const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = BigEndian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  State added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

void Sha256Stream::Add(std::string_view data) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  size_t left = data.size();
  if (const size_t held = size_ % kBlock; held > 0 && left > 0) {
    const size_t taken = std::min(left, kBlock - held);
    std::memcpy(rest_.data() + held, bytes, taken);
    bytes += taken;
    left -= taken;
    size_ += taken;
    if (size_ % kBlock != 0) return;
    Compress(state_, rest_.data());
  }
  size_ += left;
  for (; left >= kBlock; bytes += kBlock, left -= kBlock) Compress(state_, bytes);
  if (left > 0) std::memcpy(rest_.data(), bytes, left);
}

Sha256Digest Sha256Stream::Finish() {
  // The rest, one bit, zeros, and the length in bits: one block, or two when the length no longer fits.
  std::array<uint8_t, 2 * kBlock> tail{};
  const size_t rest = size_ % kBlock;
  if (rest > 0) std::memcpy(tail.data(), rest_.data(), rest);
  tail[rest] = 0x80;
  const size_t length = rest + 9 > kBlock ? 2 * kBlock : kBlock;
  const uint64_t bits = size_ * 8;
  for (size_t i = 0; i < 8; ++i) tail[length - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t at = 0; at < length; at += kBlock) Compress(state_, tail.data() + at);

  Sha256Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest Sha256(std::string_view data) {
  Sha256Stream stream;
  stream.Add(data);
  return stream.Finish();
}

Sha256Digest HmacSha256(std::string_view key, std::span<const std::string_view> pieces) {
  std::array<char, kBlock> inner{}, outer{};
  if (key.size() > kBlock) {
    const Sha256Digest digest = Sha256(key);
    std::memcpy(inner.data(), digest.data(), digest.size());
  } else {
    key.copy(inner.data(), kBlock);
  }
  for (size_t i = 0; i < kBlock; ++i) {
    outer[i] = static_cast<char>(inner[i] ^ 0x5c);
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
  }
  Sha256Stream stream;
  stream.Add({inner.data(), inner.size()});
  for (std::string_view piece : pieces) stream.Add(piece);
  const Sha256Digest digest = stream.Finish();
  Sha256Stream last;
  last.Add({outer.data(), outer.size()});
  last.Add({reinterpret_cast<const char*>(digest.data()), digest.size()});
  return last.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * digest.size());
  for (uint8_t byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view data) { return ToHex(Sha256(data)); }

}  // namespace cella
