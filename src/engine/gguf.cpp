#include "engine/gguf.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace monotile::engine {

static_assert(std::endian::native == std::endian::little, "GGUF data is read in place and is little-endian");

namespace {

constexpr uint64_t kMaxMetadataKey = 65535;
constexpr uint64_t kMaxTensorName = 255;
constexpr int kMaxTensorRank = 4;
// Far above any real model. They bound the tables, whose records are larger than what the file spends on them.
constexpr uint64_t kMaxEntries = uint64_t{1} << 16;
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
constexpr uint64_t kMinAlignment = 8;  // the format asks for multiples of 8; elements of 4 bytes need 4
// Extents and byte counts stay below 2^62, so that sums of two of them never overflow int64.
constexpr uint64_t kMaxCount = uint64_t{1} << 62;

struct GgmlType {
  uint32_t id;
  const char* name;
  uint32_t block_elements;
  uint32_t block_bytes;
  DType dtype;  ///< none: listed by `inspect`, never loaded
};

// Numbers, block lengths and block sizes of the ggml tensor types. Absent numbers were withdrawn from the format.
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, DType::f32},          {1, "F16", 1, 2, DType::f16},          {2, "Q4_0", 32, 18, DType::q4_0},
    {3, "Q4_1", 32, 20, DType::none},      {6, "Q5_0", 32, 22, DType::q5_0},      {7, "Q5_1", 32, 24, DType::none},
    {8, "Q8_0", 32, 34, DType::q8_0},      {9, "Q8_1", 32, 36, DType::none},      {10, "Q2_K", 256, 84, DType::none},
    {11, "Q3_K", 256, 110, DType::none},   {12, "Q4_K", 256, 144, DType::q4_k},   {13, "Q5_K", 256, 176, DType::none},
    {14, "Q6_K", 256, 210, DType::q6_k},   {15, "Q8_K", 256, 292, DType::none},   {16, "IQ2_XXS", 256, 66, DType::none},
    {17, "IQ2_XS", 256, 74, DType::none},  {18, "IQ3_XXS", 256, 98, DType::none}, {19, "IQ1_S", 256, 50, DType::none},
    {20, "IQ4_NL", 32, 18, DType::none},   {21, "IQ3_S", 256, 110, DType::none},  {22, "IQ2_S", 256, 82, DType::none},
    {23, "IQ4_XS", 256, 136, DType::none}, {24, "I8", 1, 1, DType::none},         {25, "I16", 1, 2, DType::none},
    {26, "I32", 1, 4, DType::none},        {27, "I64", 1, 8, DType::none},        {28, "F64", 1, 8, DType::none},
    {29, "IQ1_M", 256, 56, DType::none},   {30, "BF16", 1, 2, DType::bf16},       {34, "TQ1_0", 256, 54, DType::none},
    {35, "TQ2_0", 256, 66, DType::none},   {39, "MXFP4", 32, 17, DType::none},
};

constexpr bool block_sizes_agree() {
  for (const GgmlType& t : kGgmlTypes) {
    if (t.dtype == DType::none) continue;
    const DTypeInfo info = dtype_info(t.dtype);
    if (static_cast<uint32_t>(info.block_elements) != t.block_elements) return false;
    if (static_cast<uint32_t>(info.block_bytes) != t.block_bytes) return false;
  }
  return true;
}
static_assert(block_sizes_agree(), "a block-quantised type differs between the file format and dtype.hpp");

const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType& t : kGgmlTypes) {
    if (t.id == id) return &t;
  }
  return nullptr;
}

/// Bytes of one element of a metadata array; 0 for strings, arrays and unknown types.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    default: return 0;
  }
}

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

/// `bits` as in GgufValue::bits, read from `p`.
uint64_t load_scalar_bits(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::u8:
    case GgufType::boolean: return load<uint8_t>(p);
    case GgufType::i8: return static_cast<uint64_t>(static_cast<int64_t>(load<int8_t>(p)));
    case GgufType::u16: return load<uint16_t>(p);
    case GgufType::i16: return static_cast<uint64_t>(static_cast<int64_t>(load<int16_t>(p)));
    case GgufType::u32:
    case GgufType::f32: return load<uint32_t>(p);
    case GgufType::i32: return static_cast<uint64_t>(static_cast<int64_t>(load<int32_t>(p)));
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return load<uint64_t>(p);
    default: return 0;
  }
}

bool integer_type(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::u16:
    case GgufType::i16:
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::u64:
    case GgufType::i64: return true;
    default: return false;
  }
}

double numeric_value(GgufType type, uint64_t bits) {
  switch (type) {
    case GgufType::f32: return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case GgufType::f64: return std::bit_cast<double>(bits);
    case GgufType::u64: return static_cast<double>(bits);
    default: return static_cast<double>(static_cast<int64_t>(bits));
  }
}

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

std::string describe(const GgufValue& v) {
  if (v.type != GgufType::array) return to_string(v.type);
  return "array of " + std::to_string(v.count) + " " + to_string(v.element);
}

/// Length of the valid UTF-8 sequence at `text[i]`, or 0.
size_t utf8_sequence(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
  const uint8_t lead = byte(i);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) >= 0xA0)) return 0;
  if ((lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) >= 0x90)) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = utf8_sequence(text, i);
    const auto c = static_cast<uint8_t>(text[i]);
    std::string piece;
    if (length == 0 || c < 0x20 || c == 0x7f ||
        (length == 2 && c == 0xC2 && static_cast<uint8_t>(text[i + 1]) < 0xA0)) {
      if (c == '\n') {
        piece = "\\n";
      } else if (c == '\t') {
        piece = "\\t";
      } else if (c == '\r') {
        piece = "\\r";
      } else {
        for (size_t k = 0; k < std::max<size_t>(length, 1); ++k) {
          const auto b = static_cast<uint8_t>(text[i + k]);
          piece += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
        }
      }
    } else {
      piece = text.substr(i, length);
    }
    if (out.size() + piece.size() > max_bytes) {
      out += "...";
      break;
    }
    out += piece;
    i += std::max<size_t>(length, 1);
  }
  return out;
}

const char* to_string(GgufType type) {
  switch (type) {
    case GgufType::u8: return "u8";
    case GgufType::i8: return "i8";
    case GgufType::u16: return "u16";
    case GgufType::i16: return "i16";
    case GgufType::u32: return "u32";
    case GgufType::i32: return "i32";
    case GgufType::f32: return "f32";
    case GgufType::boolean: return "bool";
    case GgufType::string: return "string";
    case GgufType::array: return "array";
    case GgufType::u64: return "u64";
    case GgufType::i64: return "i64";
    case GgufType::f64: return "f64";
  }
  return "unknown";
}

bool GgufValue::is_integer() const { return integer_type(type); }

double GgufValue::as_f64() const { return numeric_value(type, bits); }

// --- parsing ----------------------------------------------------------------------------------------------------------

/// A cursor over the mapping. `end` never exceeds the mapping; every read checks what is left first.
struct GgufFile::Parser {
  GgufFile& file;
  const std::byte* base;
  uint64_t size;
  uint64_t at = 0;

  uint64_t left() const { return size - at; }

  const std::byte* take(uint64_t bytes, const std::string& part) {
    if (bytes > left()) {
      file.fail(part + ": needs " + std::to_string(bytes) + " bytes at offset " + std::to_string(at) +
                ", but the file ends at " + std::to_string(size));
    }
    const std::byte* p = base + at;
    at += bytes;
    return p;
  }

  template <class T>
  T read(const std::string& part) {
    return load<T>(take(sizeof(T), part));
  }

  std::string_view read_string(const std::string& part, uint64_t limit) {
    const uint64_t length = read<uint64_t>(part);
    if (length > left() || length > limit) {
      file.fail(part + ": string length " + std::to_string(length) + " at offset " + std::to_string(at - 8) +
                ", allowed are at most " + std::to_string(std::min(limit, left())));
    }
    return {reinterpret_cast<const char*>(take(length, part)), static_cast<size_t>(length)};
  }

  GgufType read_type(const std::string& part) {
    const auto id = read<uint32_t>(part);
    if (id > static_cast<uint32_t>(GgufType::f64)) {
      file.fail(part + ": value type " + std::to_string(id) + " is unknown, allowed are 0 to 12");
    }
    return static_cast<GgufType>(id);
  }

  GgufValue read_value(const std::string& part) {
    GgufValue v;
    v.type = read_type(part);
    if (v.type == GgufType::string) {
      v.text = read_string(part, kMaxCount);
    } else if (v.type == GgufType::array) {
      read_array(v, part);
    } else {
      v.bits = load_scalar_bits(v.type, take(scalar_bytes(v.type), part));
      if (v.type == GgufType::boolean && v.bits > 1) {
        file.fail(part + ": bool holds " + std::to_string(v.bits) + ", allowed are 0 and 1");
      }
    }
    return v;
  }

  void read_array(GgufValue& v, const std::string& part) {
    v.element = read_type(part);
    if (v.element == GgufType::array)
      file.fail(part + ": an array of arrays, allowed are arrays of scalars or strings");
    v.count = read<uint64_t>(part);
    // A string takes at least its 8-byte length, so this bounds the vector of views by twice what is left of the file.
    const uint64_t least = v.element == GgufType::string ? 8 : scalar_bytes(v.element);
    if (v.count > left() / least) {
      file.fail(part + ": array of " + std::to_string(v.count) + " " + to_string(v.element) + ", but only " +
                std::to_string(left()) + " bytes are left");
    }
    if (v.element != GgufType::string) {
      v.raw = take(v.count * least, part);
      return;
    }
    v.strings.reserve(static_cast<size_t>(v.count));
    for (uint64_t i = 0; i < v.count; ++i) v.strings.push_back(read_string(part, kMaxCount));
  }

  void run() {
    const char magic[4] = {'G', 'G', 'U', 'F'};
    if (std::memcmp(take(4, "magic"), magic, 4) != 0) {
      file.fail("not a GGUF file: it begins with " + quoted(std::string_view(reinterpret_cast<const char*>(base), 4)) +
                ", not 'GGUF'");
    }
    file.version_ = read<uint32_t>("version");
    if (file.version_ == 0x02000000u || file.version_ == 0x03000000u) {
      file.fail("the file is big-endian, allowed are little-endian files");
    }
    if (file.version_ != 2 && file.version_ != 3) {
      file.fail("GGUF version " + std::to_string(file.version_) + ", allowed are 2 and 3");
    }
    const uint64_t num_tensors = read<uint64_t>("tensor count");
    const uint64_t num_entries = read<uint64_t>("metadata count");
    read_metadata(num_entries);
    read_alignment();
    read_tensor_infos(num_tensors);
    place_tensors();
  }

  void read_metadata(uint64_t count) {
    constexpr uint64_t kLeastEntry = 8 + 1 + 4 + 1;  // key length, one character, type, one byte of value
    if (count > left() / kLeastEntry || count > kMaxEntries) {
      file.fail("metadata count " + std::to_string(count) + ", allowed are at most " + std::to_string(kMaxEntries) +
                " and what fits the " + std::to_string(left()) + " bytes left");
    }
    file.entries_.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
      const std::string part = "metadata entry " + std::to_string(i);
      GgufEntry entry;
      entry.key = read_string(part, kMaxMetadataKey);
      if (entry.key.empty()) file.fail(part + ": empty key");
      entry.value = read_value("metadata " + quoted(entry.key));
      file.entries_.push_back(std::move(entry));
    }
    file.entry_order_ = sorted(
        file.entries_, [](const GgufEntry& e) { return e.key; }, "metadata key");
  }

  void read_alignment() {
    const GgufValue* v = file.find("general.alignment");
    if (v == nullptr) return;
    const uint64_t alignment = v->bits;
    if (v->type != GgufType::u32 || alignment < kMinAlignment || alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
      file.fail("general.alignment is " + (v->is_integer() ? std::to_string(v->as_i64()) : std::string()) + " (" +
                describe(*v) + "), allowed is a u32 power of two from " + std::to_string(kMinAlignment) + " to " + std::to_string(kMaxAlignment));
    }
    file.alignment_ = alignment;
  }

  void read_tensor_infos(uint64_t count) {
    constexpr uint64_t kLeastInfo = 8 + 1 + 4 + 8 + 4 + 8;  // name, rank, one extent, type, offset
    if (count > left() / kLeastInfo || count > kMaxTensors) {
      file.fail("tensor count " + std::to_string(count) + ", allowed are at most " + std::to_string(kMaxTensors) +
                " and what fits the " + std::to_string(left()) + " bytes left");
    }
    file.tensors_.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) file.tensors_.push_back(read_tensor_info("tensor " + std::to_string(i)));
    file.tensor_order_ = sorted(
        file.tensors_, [](const GgufTensor& t) { return t.name; }, "tensor name");
  }

  GgufTensor read_tensor_info(const std::string& number) {
    GgufTensor t;
    t.name = read_string(number, kMaxTensorName);
    if (t.name.empty()) file.fail(number + ": empty name");
    const std::string part = "tensor " + quoted(t.name);
    const auto rank = read<uint32_t>(part);
    if (rank < 1 || rank > static_cast<uint32_t>(kMaxTensorRank)) {
      file.fail(part + ": " + std::to_string(rank) + " dimensions, allowed are 1 to 4");
    }
    t.rank = static_cast<int>(rank);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < rank; ++d) {
      const auto extent = read<uint64_t>(part);
      if (extent == 0 || extent >= kMaxCount || __builtin_mul_overflow(elements, extent, &elements) ||
          elements >= kMaxCount) {
        file.fail(part + ": dimension " + std::to_string(d) + " is " + std::to_string(extent) +
                  ", allowed are positive extents whose product is under 2^62");
      }
      t.extents[rank - 1 - d] = static_cast<int64_t>(extent);
    }
    t.elements = static_cast<int64_t>(elements);
    t.ggml_type = read<uint32_t>(part);
    const GgmlType* type = find_ggml_type(t.ggml_type);
    if (type == nullptr) file.fail(part + ": tensor type " + std::to_string(t.ggml_type) + " is unknown");
    t.type_name = type->name;
    t.dtype = type->dtype;
    const auto row = static_cast<uint64_t>(t.extents[rank - 1]);
    if (row % type->block_elements != 0) {
      file.fail(part + ": rows of " + std::to_string(row) + " elements of type " + type->name +
                ", allowed are multiples of " + std::to_string(type->block_elements));
    }
    if (__builtin_mul_overflow(elements / type->block_elements, uint64_t{type->block_bytes}, &t.bytes)) {
      file.fail(part + ": " + std::to_string(elements) + " elements of type " + type->name + " overflow 64 bits");
    }
    t.offset = read<uint64_t>(part);
    if (t.offset % file.alignment_ != 0) {
      file.fail(part + ": offset " + std::to_string(t.offset) + " is not a multiple of the alignment " +
                std::to_string(file.alignment_));
    }
    return t;
  }

  /// Finds the data section and checks that every tensor lies inside it and none overlaps another.
  void place_tensors() {
    uint64_t start = 0;  // cannot overflow: `at` is at most a file size and the alignment at most 2^30
    start = (at + file.alignment_ - 1) / file.alignment_ * file.alignment_;
    file.data_offset_ = std::min(start, size);
    const uint64_t data_bytes = size - file.data_offset_;
    for (GgufTensor& t : file.tensors_) {
      if (t.bytes > data_bytes || t.offset > data_bytes - t.bytes) {
        file.fail("tensor " + quoted(t.name) + ": " + std::to_string(t.bytes) + " bytes at offset " +
                  std::to_string(t.offset) + ", but the data section holds " + std::to_string(data_bytes));
      }
      t.data = base + file.data_offset_ + t.offset;
    }
    std::vector<uint32_t> order(file.tensors_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return file.tensors_[a].offset < file.tensors_[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = file.tensors_[order[i - 1]];
      const GgufTensor& t = file.tensors_[order[i]];
      if (t.offset < before.offset + before.bytes) {
        file.fail("tensor " + quoted(t.name) + ": its data at offset " + std::to_string(t.offset) +
                  " overlaps tensor " + quoted(before.name));
      }
    }
  }

  /// Indices sorted by name; fails on a duplicate.
  template <class Item, class Name>
  std::vector<uint32_t> sorted(const std::vector<Item>& items, Name name, const char* what) {
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name(items[a]) < name(items[b]); });
    for (size_t i = 1; i < order.size(); ++i) {
      if (name(items[order[i - 1]]) == name(items[order[i]])) {
        file.fail(std::string(what) + " " + quoted(name(items[order[i]])) + " appears twice");
      }
    }
    return order;
  }
};

GgufFile GgufFile::open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: a FIFO must not hang the call
  if (fd < 0) {
    throw Error(ErrorCode::not_found, "gguf: cannot open " + quoted(path) + ": " + std::strerror(errno));
  }
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat info {};
  if (::fstat(fd, &info) != 0) file.fail(std::string("cannot stat: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) file.fail("not a regular file");
  if (info.st_size < 24) file.fail("file of " + std::to_string(info.st_size) + " bytes, a GGUF header alone has 24");
  const auto bytes = static_cast<uint64_t>(info.st_size);
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) {
    throw Error(ErrorCode::out_of_memory, "gguf: cannot map " + quoted(path) + ": " + std::strerror(errno));
  }
  file.map_ = static_cast<const std::byte*>(map);
  file.map_bytes_ = bytes;
  Parser{file, file.map_, bytes}.run();
  return file;
}

GgufFile::~GgufFile() { release(); }

void GgufFile::release() noexcept {
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), map_bytes_);
  map_ = nullptr;
  map_bytes_ = 0;
}

GgufFile::GgufFile(GgufFile&& other) noexcept
    : path_(std::move(other.path_)),
      map_(std::exchange(other.map_, nullptr)),
      map_bytes_(std::exchange(other.map_bytes_, 0)),
      version_(other.version_),
      alignment_(other.alignment_),
      data_offset_(other.data_offset_),
      entries_(std::move(other.entries_)),
      tensors_(std::move(other.tensors_)),
      entry_order_(std::move(other.entry_order_)),
      tensor_order_(std::move(other.tensor_order_)) {}

GgufFile& GgufFile::operator=(GgufFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  map_ = std::exchange(other.map_, nullptr);
  map_bytes_ = std::exchange(other.map_bytes_, 0);
  version_ = other.version_;
  alignment_ = other.alignment_;
  data_offset_ = other.data_offset_;
  entries_ = std::move(other.entries_);
  tensors_ = std::move(other.tensors_);
  entry_order_ = std::move(other.entry_order_);
  tensor_order_ = std::move(other.tensor_order_);
  return *this;
}

void GgufFile::fail(const std::string& text) const {
  throw Error(ErrorCode::bad_file, "gguf: " + quoted(path_) + ": " + text);
}

// --- metadata ---------------------------------------------------------------------------------------------------------

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = std::lower_bound(entry_order_.begin(), entry_order_.end(), key,
                                   [&](uint32_t i, std::string_view k) { return entries_[i].key < k; });
  if (it == entry_order_.end() || entries_[*it].key != key) return nullptr;
  return &entries_[*it].value;
}

const GgufValue& GgufFile::require(std::string_view key) const {
  const GgufValue* v = find(key);
  if (v == nullptr) fail("metadata " + quoted(key) + " is missing");
  return *v;
}

uint64_t GgufFile::get_u64(std::string_view key) const {
  const GgufValue& v = require(key);
  if (!v.is_integer()) fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an unsigned integer");
  if (v.type != GgufType::u64 && v.as_i64() < 0) {
    fail("metadata " + quoted(key) + " is " + std::to_string(v.as_i64()) + ", allowed is an unsigned integer");
  }
  return v.bits;
}

int64_t GgufFile::get_i64(std::string_view key) const {
  const GgufValue& v = require(key);
  if (!v.is_integer()) fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an integer");
  if (v.type == GgufType::u64 && v.as_i64() < 0) {
    fail("metadata " + quoted(key) + " is " + std::to_string(v.bits) + ", allowed is an integer under 2^63");
  }
  return v.as_i64();
}

float GgufFile::get_f32(std::string_view key) const {
  const GgufValue& v = require(key);
  if (!v.is_float() && !v.is_integer())
    fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is a number");
  return static_cast<float>(v.as_f64());
}

bool GgufFile::get_bool(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::boolean) fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is a bool");
  return v.bits != 0;
}

std::string_view GgufFile::get_string(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::string) fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is a string");
  return v.text;
}

uint64_t GgufFile::get_u64(std::string_view key, uint64_t fallback) const { return has(key) ? get_u64(key) : fallback; }
int64_t GgufFile::get_i64(std::string_view key, int64_t fallback) const { return has(key) ? get_i64(key) : fallback; }
float GgufFile::get_f32(std::string_view key, float fallback) const { return has(key) ? get_f32(key) : fallback; }
bool GgufFile::get_bool(std::string_view key, bool fallback) const { return has(key) ? get_bool(key) : fallback; }
std::string_view GgufFile::get_string(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : fallback;
}

std::vector<int32_t> GgufFile::get_i32_array(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::array || !integer_type(v.element)) {
    fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an array of integers");
  }
  const uint64_t step = scalar_bytes(v.element);
  std::vector<int32_t> out(static_cast<size_t>(v.count));
  for (uint64_t i = 0; i < v.count; ++i) {
    const uint64_t bits = load_scalar_bits(v.element, v.raw + i * step);
    const auto value = static_cast<int64_t>(bits);
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
      fail("metadata " + quoted(key) + ": element " + std::to_string(i) + " does not fit 32 bits");
    }
    out[static_cast<size_t>(i)] = static_cast<int32_t>(value);
  }
  return out;
}

std::vector<float> GgufFile::get_f32_array(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::array ||
      (v.element != GgufType::f32 && v.element != GgufType::f64 && !integer_type(v.element))) {
    fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an array of numbers");
  }
  const uint64_t step = scalar_bytes(v.element);
  std::vector<float> out(static_cast<size_t>(v.count));
  for (uint64_t i = 0; i < v.count; ++i) {
    out[static_cast<size_t>(i)] =
        static_cast<float>(numeric_value(v.element, load_scalar_bits(v.element, v.raw + i * step)));
  }
  return out;
}

std::vector<bool> GgufFile::get_bool_array(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::array || v.element != GgufType::boolean) {
    fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an array of bool");
  }
  std::vector<bool> out(static_cast<size_t>(v.count));
  for (uint64_t i = 0; i < v.count; ++i) out[static_cast<size_t>(i)] = v.raw[i] != std::byte{0};
  return out;
}

std::span<const std::string_view> GgufFile::get_string_array(std::string_view key) const {
  const GgufValue& v = require(key);
  if (v.type != GgufType::array || v.element != GgufType::string) {
    fail("metadata " + quoted(key) + " is " + describe(v) + ", allowed is an array of strings");
  }
  return v.strings;
}

// --- tensors ----------------------------------------------------------------------------------------------------------

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = std::lower_bound(tensor_order_.begin(), tensor_order_.end(), name,
                                   [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (it == tensor_order_.end() || tensors_[*it].name != name) return nullptr;
  return &tensors_[*it];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* t = find_tensor(name);
  if (t == nullptr) fail("tensor " + quoted(name) + " is missing");
  return *t;
}

TensorView GgufFile::view(std::string_view name) const { return view(tensor(name)); }

TensorView GgufFile::view(const GgufTensor& t) const {
  if (t.dtype == DType::none) {
    throw Error(ErrorCode::unsupported,
                "gguf: " + quoted(path_) + ": tensor " + quoted(t.name) + " has type " + t.type_name +
                    ", which is not supported; allowed are F32, F16, BF16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K");
  }
  TensorView v;
  v.data = const_cast<std::byte*>(t.data);
  v.dtype = t.dtype;
  v.device = Device{DeviceKind::cpu, 0};
  v.rank = t.rank;
  int64_t step = 1;  // the product of all extents was checked when the file was opened
  for (int d = t.rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    v.extent[i] = t.extents[i];
    v.stride[i] = step;
    step *= t.extents[i];
  }
  return v;
}

void GgufFile::drop_pages(const GgufTensor& t) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (data_offset_ + t.offset + page - 1) / page * page;
  const uint64_t end = (data_offset_ + t.offset + t.bytes) / page * page;
  // Advice only: a failure leaves the pages resident, which is correct.
  if (begin < end) (void)::madvise(const_cast<std::byte*>(map_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace monotile::engine
