#pragma once
namespace monotile::detail {
/// "0.1.0"
const char* version();
}  // namespace monotile::detail
