#include "bench/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "ops/random_data.hpp"

namespace monotile::bench {
namespace {

/// Large tensors repeat one random pattern from different starts: making every element anew would take longer than the
/// measurement. The period is prime to all row lengths in use, so rows differ.
constexpr int64_t kPatternBlocks = 4093;
constexpr int64_t kUnit = 256;  ///< elements: whole blocks of every type

const std::vector<uint8_t>& pattern(DType dtype, double low, double high) {
  static std::mutex mutex;
  static std::map<std::tuple<DType, double, double>, std::vector<uint8_t>> patterns;
  const std::lock_guard lock(mutex);
  std::vector<uint8_t>& bytes = patterns[{dtype, low, high}];
  if (bytes.empty()) {
    bytes.resize(static_cast<size_t>(storage_bytes(dtype, kPatternBlocks * kUnit)));
    ops::RandomData(7).fill(bytes.data(), dtype, kPatternBlocks * kUnit, low, high);
  }
  return bytes;
}

/// A byte of what outputs hold before: NaN of all floats. As an int32 that would be -1, which sums of products may be; -2139062144 they are not.
int poison_of(DType dtype) { return dtype == DType::i32 ? 0x80 : 0xff; }
template <class Word>
size_t poisoned(const void* data, size_t count, DType dtype) {
  const Word* const words = static_cast<const Word*>(data);
  Word poison;
  std::memset(&poison, poison_of(dtype), sizeof poison);
  return static_cast<size_t>(std::count(words, words + count, poison));
}

}  // namespace

Data::Data(Stream& stream, uint64_t seed) : stream_(stream), seed_(seed) {}

TensorView Data::add(Role role, DType dtype, std::initializer_list<int64_t> extents, double low, double high) {
  const uint64_t offset = (seed_ * 1009 + entries_.size() * 677) % kPatternBlocks;
  Entry& entry = entries_.emplace_back(Entry{Tensor(stream_.device(), dtype, extents), role, low, high, offset});
  const double bytes = static_cast<double>(entry.tensor.bytes());
  if (role != Role::output) read_ += bytes;
  if (role == Role::output || role == Role::in_place) written_ += bytes;
  bytes_ += entry.tensor.bytes();
  fill(entry);
  return entry.tensor.view();
}

void Data::fill(Entry& entry) {
  auto* const to = static_cast<uint8_t*>(entry.tensor.view().data);
  const size_t bytes = entry.tensor.bytes();
  if (entry.role == Role::output) return fill_bytes(stream_, to, poison_of(entry.tensor.view().dtype), bytes);
  if (entry.role == Role::table) return;
  const std::vector<uint8_t>& random = pattern(entry.tensor.view().dtype, entry.low, entry.high);
  const size_t start = random.size() / kPatternBlocks * entry.offset, first = std::min(bytes, random.size() - start);
  copy_to_device(stream_, to, random.data() + start, first);
  size_t done = first;
  if (done < bytes) {
    const size_t second = std::min(bytes - done, start);
    copy_to_device(stream_, to + done, random.data(), second);
    done += second;
  }
  for (; done < bytes; done *= 2) copy_on_device(stream_, to + done, to, std::min(done, bytes - done));
  stream_.synchronize();
}

TensorView Data::input(DType dtype, std::initializer_list<int64_t> extents, double low, double high) {
  return add(Role::input, dtype, extents, low, high);
}
TensorView Data::output(DType dtype, std::initializer_list<int64_t> extents) {
  return add(Role::output, dtype, extents, 0, 0);
}
TensorView Data::in_place(DType dtype, std::initializer_list<int64_t> extents, double low, double high) {
  return add(Role::in_place, dtype, extents, low, high);
}
TensorView Data::table(const std::vector<int64_t>& values) {
  const TensorView view = add(Role::table, DType::i32, {static_cast<int64_t>(values.size())}, 0, 0);
  const std::vector<int32_t> narrow(values.begin(), values.end());
  copy_to_device(stream_, view.data, narrow.data(), narrow.size() * sizeof(int32_t));
  stream_.synchronize();
  return view;
}
TensorView Data::values(const std::vector<float>& values, std::initializer_list<int64_t> extents) {
  const TensorView view = add(Role::table, DType::f32, extents, 0, 0);
  copy_to_device(stream_, view.data, values.data(), values.size() * sizeof(float));
  stream_.synchronize();
  return view;
}

void Data::reset() {
  for (Entry& entry : entries_) {
    if (entry.role == Role::output || entry.role == Role::in_place) fill(entry);
  }
}

bool Data::changes_inputs() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.role == Role::in_place; });
}

void Data::take_outputs(Data& device) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].role != Role::output && entries_[i].role != Role::in_place) continue;
    copy_to_host(device.stream_, entries_[i].tensor.view().data, device.entries_[i].tensor.view().data,
                 entries_[i].tensor.bytes());
  }
  device.stream_.synchronize();
}

std::string Data::unwritten() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.role != Role::output) continue;
    const size_t size = static_cast<size_t>(std::max(1, dtype_info(entry.tensor.view().dtype).block_bytes)),
                 count = entry.tensor.bytes() / size;
    const void* const data = entry.tensor.view().data;
    const DType dtype = entry.tensor.view().dtype;
    const size_t left = size == 2   ? poisoned<uint16_t>(data, count, dtype)
                        : size == 4 ? poisoned<uint32_t>(data, count, dtype)
                        : size == 8 ? poisoned<uint64_t>(data, count, dtype)
                                    : 0;
    if (left != 0) return fmt::format("output {}: {} of {} elements were never written", i, left, count);
  }
  return {};
}

std::string Data::constant_input() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const int64_t count = entry.tensor.view().size();
    if ((entry.role != Role::input && entry.role != Role::in_place) || count < 64) continue;
    const DTypeInfo info = dtype_info(entry.tensor.view().dtype);
    const size_t size = static_cast<size_t>(info.block_bytes);
    const auto* const first = static_cast<const uint8_t*>(entry.tensor.view().data);
    bool varies = false;
    for (size_t e = 1; e < 64 && !varies; ++e)
      varies = e * size < entry.tensor.bytes() && std::memcmp(first, first + e * size, size) != 0;
    if (!varies) return fmt::format("input {} holds one value only", i);
  }
  return {};
}

}  // namespace monotile::bench
