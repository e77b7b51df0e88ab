#include "engine/step_inputs.hpp"

namespace monotile::engine {

StepInputs::StepInputs(Stream& stream, int64_t max_tokens, int64_t max_sequences,
                       std::span<const int64_t> columns_of_groups)
    : ids_at_(place(max_tokens)),
      positions_at_(place(max_tokens)),
      q_start_at_(place(max_sequences + 1)),
      kv_length_at_(place(max_sequences)) {
  for (const int64_t columns : columns_of_groups) {
    const int64_t slots_at = place(max_tokens);
    groups_.push_back({slots_at, place(max_sequences * columns), columns});
  }
  const size_t bytes = static_cast<size_t>(words_) * sizeof(int32_t);
  device_ = Buffer(stream.device(), bytes);
  if (!stream.device().host_memory()) staging_.assign(static_cast<size_t>(words_), -1);
  fill_bytes(stream, device_.data(), 0xff, bytes);
}

void StepInputs::upload(Stream& stream) {
  if (!staging_.empty()) copy_to_device(stream, device_.data(), staging_.data(), staging_.size() * sizeof(int32_t));
}

TensorView StepInputs::block_table_view(size_t group, int64_t sequences) const {
  return {device_.as<int32_t>() + groups_[group].table_at,
          DType::i32,
          {sequences, groups_[group].columns},
          device_.device()};
}

int64_t StepInputs::place(int64_t words) {
  constexpr int64_t kAlign = 64;  // 256 bytes: no table shares a cache line with another
  const int64_t at = words_;
  words_ += (words + kAlign - 1) / kAlign * kAlign;
  return at;
}

}  // namespace monotile::engine
