#pragma once
// Reader for GGUF v2 and v3 files. The file is memory-mapped read-only, and nothing in it is trusted: every count, length,
// extent and offset is checked with overflow-checked arithmetic before use, and no allocation exceeds a small multiple of
// the file's own size. All text and tensor data handed out points into the mapping and lives as long as the GgufFile.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/dtype.hpp"
#include "monotile/error.hpp"
#include "monotile/tensor.hpp"

namespace monotile::engine {

/// Type tag of a metadata value, numbered as in the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// "u32", "string", ...; "unknown" for other values.
const char* to_string(GgufType type);

/// One metadata value: a scalar, a string, or an array of scalars or strings. Arrays of arrays are refused at open.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  ///< arrays: type of the elements
  uint64_t count = 0;               ///< arrays: number of elements
  uint64_t bits = 0;               ///< scalars: unsigned and bool zero-extended, signed sign-extended, f32/f64 raw bits
  std::string_view text;           ///< strings
  const std::byte* raw = nullptr;  ///< arrays of scalars: packed little-endian elements, not aligned
  std::vector<std::string_view> strings;  ///< arrays of strings

  bool is_integer() const;
  bool is_float() const { return type == GgufType::f32 || type == GgufType::f64; }
  int64_t as_i64() const { return static_cast<int64_t>(bits); }
  double as_f64() const;  ///< any numeric scalar
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

/// One tensor. `extents[0 .. rank)` are row-major (the last one is contiguous), the reverse of the file's order.
struct GgufTensor {
  std::string_view name;
  uint32_t ggml_type = 0;      ///< type number in the file
  const char* type_name = "";  ///< "Q4_K", ...
  DType dtype = DType::none;   ///< none: this type can be listed but not loaded
  int rank = 0;                ///< 1 to 4
  std::array<int64_t, 4> extents{};
  int64_t elements = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  ///< from the start of the data section; a multiple of the alignment
  const std::byte* data = nullptr;
};

/// An open GGUF file. Movable; const member functions are safe to call from several threads.
class GgufFile {
 public:
  /// Maps and checks `path`. Throws Error(not_found) if it cannot be opened, Error(bad_file) for anything that is wrong in
  /// it: the text names the file, the part, what was found and what is allowed.
  static GgufFile open(const std::string& path);
  ~GgufFile();
  GgufFile(GgufFile&& other) noexcept;
  GgufFile& operator=(GgufFile&& other) noexcept;
  GgufFile(const GgufFile&) = delete;

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t file_bytes() const { return map_bytes_; }
  uint64_t data_offset() const { return data_offset_; }  ///< start of the data section

  // --- metadata -------------------------------------------------------------------------------------------------------
  /// All entries in the order of the file.
  std::span<const GgufEntry> metadata() const { return entries_; }
  /// Null if absent.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// Typed getters. An integer is accepted from every integer type if the value fits, a float from f32, f64 and integers.
  /// Without a fallback an absent key is Error(bad_file); a value of the wrong type or range is Error(bad_file) always.
  uint64_t get_u64(std::string_view key) const;
  uint64_t get_u64(std::string_view key, uint64_t fallback) const;
  int64_t get_i64(std::string_view key) const;
  int64_t get_i64(std::string_view key, int64_t fallback) const;
  float get_f32(std::string_view key) const;
  float get_f32(std::string_view key, float fallback) const;
  bool get_bool(std::string_view key) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string_view get_string(std::string_view key) const;
  std::string_view get_string(std::string_view key, std::string_view fallback) const;

  /// Array getters: copies, converted element by element with range checks. An absent key is Error(bad_file).
  std::vector<int32_t> get_i32_array(std::string_view key) const;
  std::vector<float> get_f32_array(std::string_view key) const;
  std::vector<bool> get_bool_array(std::string_view key) const;
  /// No copy: views into the file.
  std::span<const std::string_view> get_string_array(std::string_view key) const;

  // --- tensors --------------------------------------------------------------------------------------------------------
  /// All tensors in the order of the file.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// Null if absent.
  const GgufTensor* find_tensor(std::string_view name) const;
  /// Throws Error(bad_file) naming file and tensor if absent.
  const GgufTensor& tensor(std::string_view name) const;
  /// Packed row-major view on device cpu into the mapping. The memory is read-only: writing to it is a fault.
  /// Throws Error(bad_file) if absent, Error(unsupported) if its type cannot be loaded.
  TensorView view(std::string_view name) const;
  TensorView view(const GgufTensor& tensor) const;

  /// Gives the resident pages that lie wholly inside this tensor back to the system; reading them again faults them in.
  void drop_pages(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  struct Parser;
  [[noreturn]] void fail(const std::string& text) const;
  const GgufValue& require(std::string_view key) const;
  void release() noexcept;

  std::string path_;
  const std::byte* map_ = nullptr;
  uint64_t map_bytes_ = 0;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t data_offset_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> entry_order_;   ///< indices sorted by key: lookup without a hash that a file could attack
  std::vector<uint32_t> tensor_order_;  ///< indices sorted by name
};

/// Text from a file made safe for a terminal: control characters and invalid UTF-8 escaped, shortened to `max_bytes`.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace monotile::engine
