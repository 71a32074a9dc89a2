#pragma once
// What this build is. Floor 5.
#include <string>

namespace tandem {

/// "0.1.0".
std::string version();
/// The page of --version: version, compiler and the libraries it was built with.
std::string version_page();

}  // namespace tandem
