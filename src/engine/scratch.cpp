#include "engine/scratch.hpp"

namespace monotile::engine {

namespace {

struct Piece {
  TensorView* view;
  DType dtype;
  int64_t rows, cols;
};

constexpr int64_t kAlign = 256;

int64_t aligned_bytes(const Piece& piece) {
  return (storage_bytes(piece.dtype, piece.rows * piece.cols) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Scratch::Scratch(Stream& stream, const Hyperparameters& h, DType dtype, int64_t max_rows, int64_t max_outputs,
                 bool poison) {
  const Piece pieces[] = {
      {&all_.residual, dtype, max_rows, h.hidden},
      {&all_.normed, dtype, max_rows, h.hidden},
      {&all_.delta, dtype, max_rows, h.hidden},
      {&all_.qkv, dtype, max_rows, h.heads * h.head_dim_qk + h.kv_heads * (h.head_dim_qk + h.head_dim_v)},
      {&all_.k, dtype, max_rows, h.kv_heads * h.head_dim_qk},
      {&all_.v, dtype, max_rows, h.kv_heads * h.head_dim_v},
      {&all_.attended, dtype, max_rows, h.heads * h.head_dim_v},
      {&all_.gate, dtype, max_rows, h.feed_forward},
      {&all_.up, dtype, max_rows, h.feed_forward},
      {&logits_, DType::f32, max_outputs, h.vocabulary},
  };
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += aligned_bytes(piece);
  memory_ = Buffer(stream.device(), static_cast<size_t>(bytes));
  if (poison) fill_bytes(stream, memory_.data(), 0xff, memory_.size());
  auto* at = memory_.as<std::byte>();
  for (const Piece& piece : pieces) {
    *piece.view = TensorView(at, piece.dtype, {piece.rows, piece.cols}, stream.device());
    at += aligned_bytes(piece);
  }
}

Activations Scratch::rows(int64_t count) const {
  const auto first = [count](const TensorView& view) { return view.slice(0, 0, count); };
  return {first(all_.residual), first(all_.normed),   first(all_.delta), first(all_.qkv), first(all_.k),
          first(all_.v),        first(all_.attended), first(all_.gate),  first(all_.up)};
}

}  // namespace monotile::engine
