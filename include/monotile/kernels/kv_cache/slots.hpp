#pragma once
// Where the rows of tokens lie in paged caches: what appends, gathers and the kernel on heads share.

#include "monotile/kernels/kv_cache/params.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// The slots of rows, found once for all that lies in them.
template <class There, class Index>
struct SlotRows {
  There there;
  Index page, in_page;

  /// Element offsets of the rows' heads in a cache, or in its scales; -1: none.
  MT_FN auto offsets(int64_t page_stride, int64_t head_stride, int64_t token_stride, const Index& head) const {
    return map([=](auto is, auto p, auto i, auto h) { return is ? p * page_stride + h * head_stride + i * token_stride : int64_t{-1}; },
               there, page, in_page, head);
  }
};
template <class There, class Index>
SlotRows(There, Index, Index) -> SlotRows<There, Index>;

/// The place of each token from its slot. What is below 2^32 is made from 32 bits, so that compilers multiply it as such.
template <class Slot>
MT_FN auto places_of_slots(const SlotTable& table, const Slot& slot) {
  const int64_t count = table.count;
  const divisor page_size = table.page_size;
  const auto page = map([=](auto s) { return int64_t{page_size.of(static_cast<uint32_t>(s))}; }, slot);
  const auto in_page = map(
      [=](auto s, auto p) {
        return int64_t{static_cast<uint32_t>(s) - static_cast<uint32_t>(p) * page_size.value};
      },
      slot, page);
  return SlotRows{map([=](auto s) { return s >= 0 && s < count; }, slot), page, in_page};
}
/// The same, and says which tokens lie past the caches.
template <class Ctx, class At, class Token, class Slot>
MT_FN auto find_slots(Ctx& ctx, const At& at, const SlotTable& table, const Token& token, const Slot& slot) {
  const int64_t count = table.count;
  if (table.status != nullptr) {
    const auto bad = map([=](auto s, auto t) { return s >= count ? t : int64_t{-1}; }, slot, token);
    store_row_value(ctx, table.status, at_rows(at, bad), map([](auto) { return int32_t{1}; }, token));
  }
  return places_of_slots(table, slot);
}

/// Token and head of rows (token, head).
template <class At>
MT_FN auto token_of_rows(const At& at, divisor heads) {
  return map([=](auto r) { return int64_t{heads.of(static_cast<uint32_t>(r))}; }, row_index(at));
}
template <class At, class Token>
MT_FN auto head_of_rows(const At& at, divisor heads, const Token& token) {
  return map(
      [=](auto r, auto t) { return int64_t{static_cast<uint32_t>(r) - static_cast<uint32_t>(t) * heads.value}; },
      row_index(at), token);
}

}  // namespace monotile::kernels
