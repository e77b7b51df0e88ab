#pragma once
// What the sampling kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class X>
struct ArgmaxParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;  ///< may be null
  int64_t rows, cols;
  float* largest;  ///< of each chunk of long rows, with its column: workspace
  int32_t* columns;
  int32_t chunks;
};

/// What the chunks of long rows leave behind: one entry per (row, chunk), and the largest of every eight neighbours.
struct ChunkFacts {
  float* largest;
  int32_t* index;  ///< of the largest; -1: there is a NaN
  float* mass;     ///< sum of 2^((v - largest) * factor)
  int32_t* drawn;  ///< the chunk's winner, where all tokens take part in the draw
  lang::view<float> maxima;
  int32_t chunks;  ///< 0: rows are not scanned
};

template <class X>
struct ScanParams {
  lang::view<const X> logits;
  ChunkFacts facts;
  int64_t rows, cols;
  float mass_factor;  ///< above 0: sum 2^((v - largest) * factor)
  bool maxima;        ///< those of neighbours are wanted
  bool sampling;      ///< what is wanted follows from the filters of the row
  const float *temperature, *top_p, *min_p;
  const int32_t* top_k;
};

template <class X>
struct TopKParams {
  lang::view<const X> logits;
  float* values;
  int32_t* ids;
  int32_t* status;  ///< may be null
  ChunkFacts facts;
  int64_t rows, cols;
  uint64_t list_bytes;
  int32_t k;
  bool log;       ///< logarithms of probabilities instead of elements
  int32_t given;  ///< tokens per row to judge besides
  const int32_t* given_ids;
  float* given_values;
};

/// One entry per row in each array; null: the parameter is off (temperature 1, seed and position 0).
template <class X>
struct SampleParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;
  const float *temperature, *top_p, *min_p;
  const int32_t* top_k;
  const int64_t *seeds, *positions;
  int64_t rows, cols;
  uint64_t list_bytes;  ///< of scratch
  ChunkFacts facts;
  int32_t most_wanted;  ///< candidates that are listed at most
};

/// Entries per row; null or 0 columns: off.
template <class X>
struct PenaltyParams {
  lang::view<X> logits;
  const int32_t* history;
  const int32_t *history_length, *prompt_length;
  const float *repetition, *presence, *frequency;
  const int32_t* bias_ids;
  const float* bias;
  int64_t rows, cols, history_cols, history_stride, bias_cols;
  int64_t window, windows, parts;  ///< columns of a window; windows of a program; programs of a row
};

struct VerifyParams {
  lang::view<const float> target;  ///< [batch * (drafts + 1), cols]
  lang::view<const float> draft;   ///< [batch * drafts, cols]; data null: drafts were certain
  const int32_t* draft_tokens;
  const int64_t *seeds, *positions;
  int32_t *tokens, *accepted;
  int32_t* status;    ///< may be null
  int32_t* rejected;  ///< workspace, per sequence
  float* scores;      ///< workspace, per (sequence, chunk)
  int32_t* winners;
  int64_t batch, cols, chunks;
  int32_t drafts;
  int32_t no_valid_token;
};

}  // namespace monotile::kernels
