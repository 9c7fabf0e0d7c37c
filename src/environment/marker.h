// The environment markers of PEP 508: "python_version < '3.12' and sys_platform == 'linux'". Pure.
#pragma once

#include <string>

#include "environment/spec_scanner.h"

namespace cella::environment {

// Takes everything to the end of the text, or fails. Appends the canonical form: one blank between words, double quotes
// where the text has none inside.
bool ScanMarker(SpecScanner& in, std::string& out);

}  // namespace cella::environment
