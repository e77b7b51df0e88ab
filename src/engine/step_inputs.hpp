#pragma once
// What changes from step to step and must be on the device: ids, positions, cache slots, block tables. One block of
// int32, filled on the host and copied with one call.

#include <cstdint>
#include <span>
#include <vector>

#include "monotile/tensor.hpp"

namespace monotile::engine {

class StepInputs {
 public:
  StepInputs(Stream& stream, int64_t max_tokens, int64_t max_sequences, std::span<const int64_t> columns_of_groups);

  /// Host side, to be filled before upload().
  int32_t* ids() { return host(ids_at_); }
  int32_t* positions() { return host(positions_at_); }
  int32_t* q_start() { return host(q_start_at_); }  ///< max_sequences + 1
  int32_t* kv_length() { return host(kv_length_at_); }
  int32_t* slots(size_t group) { return host(groups_[group].slots_at); }
  int32_t* block_table(size_t group, int64_t sequence) {
    return host(groups_[group].table_at) + sequence * groups_[group].columns;
  }

  void upload(Stream& stream);

  /// Device side: the first `n` entries or rows.
  TensorView ids_view(int64_t n) const { return vector(ids_at_, n); }
  TensorView positions_view(int64_t n) const { return vector(positions_at_, n); }
  TensorView q_start_view(int64_t sequences) const { return vector(q_start_at_, sequences + 1); }
  TensorView kv_length_view(int64_t sequences) const { return vector(kv_length_at_, sequences); }
  TensorView slots_view(size_t group, int64_t n) const { return vector(groups_[group].slots_at, n); }
  TensorView block_table_view(size_t group, int64_t sequences) const;

 private:
  struct Group {
    int64_t slots_at = 0, table_at = 0, columns = 0;
  };

  int64_t place(int64_t words);
  int32_t* host(int64_t at) { return (staging_.empty() ? device_.as<int32_t>() : staging_.data()) + at; }
  TensorView vector(int64_t at, int64_t n) const {
    return {device_.as<int32_t>() + at, DType::i32, {n}, device_.device()};
  }

  int64_t words_ = 0;
  int64_t ids_at_, positions_at_, q_start_at_, kv_length_at_;
  std::vector<Group> groups_;
  Buffer device_;
  std::vector<int32_t> staging_;  ///< empty on host memory, where the device block is written directly
};

}  // namespace monotile::engine
