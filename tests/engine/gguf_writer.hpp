#pragma once
// Builds GGUF files in memory for tests: right ones through named calls, wrong ones by changing any field.

#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace monotile::test {

/// Little-endian bytes, one field after the other.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    data_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u32(uint32_t v) { return put(v); }
  Bytes& u64(uint64_t v) { return put(v); }
  Bytes& raw(std::string_view v) {
    data_.append(v);
    return *this;
  }
  /// Length and characters.
  Bytes& text(std::string_view v) { return u64(v.size()).raw(v); }
  const std::string& data() const { return data_; }
  size_t size() const { return data_.size(); }

 private:
  std::string data_;
};

struct TensorSpec {
  std::string name;
  std::vector<uint64_t> extents;  ///< in the file's order: the contiguous one first
  uint32_t type = 0;
  uint64_t offset = 0;
};

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  ///< of the layout; write general.alignment yourself
  int64_t entries_off = 0;  ///< added to the metadata count that is written
  int64_t tensors_off = 0;  ///< added to the tensor count that is written
  std::string metadata;     ///< encoded entries
  std::string infos;        ///< encoded tensor infos
  std::string data;         ///< data section
  uint64_t num_entries = 0, num_tensors = 0;

  /// `value` is the encoded value without its type.
  GgufWriter& entry(std::string_view key, uint32_t type, std::string_view value) {
    metadata += Bytes().text(key).u32(type).raw(value).data();
    ++num_entries;
    return *this;
  }
  GgufWriter& u8(std::string_view key, uint8_t v) { return entry(key, 0, Bytes().put(v).data()); }
  GgufWriter& u32(std::string_view key, uint32_t v) { return entry(key, 4, Bytes().put(v).data()); }
  GgufWriter& i32(std::string_view key, int32_t v) { return entry(key, 5, Bytes().put(v).data()); }
  GgufWriter& f32(std::string_view key, float v) { return entry(key, 6, Bytes().put(v).data()); }
  GgufWriter& boolean(std::string_view key, bool v) {
    return entry(key, 7, Bytes().put(static_cast<uint8_t>(v)).data());
  }
  GgufWriter& text(std::string_view key, std::string_view v) { return entry(key, 8, Bytes().text(v).data()); }
  GgufWriter& u64(std::string_view key, uint64_t v) { return entry(key, 10, Bytes().put(v).data()); }
  GgufWriter& i64(std::string_view key, int64_t v) { return entry(key, 11, Bytes().put(v).data()); }
  GgufWriter& f64(std::string_view key, double v) { return entry(key, 12, Bytes().put(v).data()); }
  template <class T>
  GgufWriter& array(std::string_view key, uint32_t element, const std::vector<T>& values) {
    Bytes b;
    b.u32(element).u64(values.size());
    for (const T& v : values) b.put(v);
    return entry(key, 9, b.data());
  }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    Bytes b;
    b.u32(8).u64(values.size());
    for (const std::string& v : values) b.text(v);
    return entry(key, 9, b.data());
  }

  GgufWriter& info(const TensorSpec& t) {
    Bytes b;
    b.text(t.name).u32(static_cast<uint32_t>(t.extents.size()));
    for (const uint64_t e : t.extents) b.u64(e);
    b.u32(t.type).u64(t.offset);
    infos += b.data();
    ++num_tensors;
    return *this;
  }
  /// Places `bytes` at the next aligned offset.
  GgufWriter& tensor(const std::string& name, std::vector<uint64_t> extents, uint32_t type, std::string_view bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    info({name, std::move(extents), type, data.size()});
    data += bytes;
    return *this;
  }

  std::string build() const {
    Bytes b;
    b.raw("GGUF").u32(version);
    b.u64(num_tensors + static_cast<uint64_t>(tensors_off)).u64(num_entries + static_cast<uint64_t>(entries_off));
    b.raw(metadata).raw(infos);
    std::string out = b.data();
    if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

/// A file that is removed at the end of its scope.
class TempFile {
 public:
  explicit TempFile(std::string_view content = {}) {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("monotile_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++)))
                .string();
    write(content);
  }
  ~TempFile() { std::remove(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  void write(std::string_view content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace monotile::test
