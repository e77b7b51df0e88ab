#pragma once
#include <cstdint>

namespace monotile::ops {

/// Row status codes written by operators that judge rows on the device (part of the C ABI).
enum RowStatus : int32_t { row_ok = 0, row_index_clamped = 1, row_no_valid_token = 2, row_has_nan = 3 };

}  // namespace monotile::ops
