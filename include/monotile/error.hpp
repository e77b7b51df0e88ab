#pragma once
// The one exception type of the library. The C ABI maps it to a status code and the same text.

#include <stdexcept>
#include <string>
#include <utility>

namespace monotile {

/// Why a call was refused. The numeric values are part of the C ABI.
enum class ErrorCode : int {
  invalid_argument = 1,   ///< wrong shape, dtype, stride, device, null pointer or option
  unsupported = 2,        ///< legal, but no implementation here can do it
  out_of_memory = 3,      ///< a device or host allocation failed
  device_error = 4,       ///< a driver or runtime call failed
  bad_file = 5,           ///< a model file is damaged, hostile or of an unknown kind
  not_found = 6,          ///< a file, device, operator or tensor does not exist
  internal = 7,           ///< a defect in this library
};

/// Thrown by every public call. `what()` names the operator or part, the argument, what was given and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace monotile
