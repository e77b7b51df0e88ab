#pragma once
// What is in a GGUF file, for people (80 columns) and for programs (JSON).

#include <string>

#include "engine/gguf.hpp"

namespace monotile::engine {

/// File, metadata (long arrays and texts shortened), tensors with type, extents and size, totals per type. Lines have at most
/// 80 columns; texts from the file are made safe for a terminal.
std::string inspect_text(const GgufFile& file);

/// The same as one JSON object: file, version, alignment, bytes, metadata {key: {type, value | count + first}}, tensors [{name,
/// type, extents (row-major), elements, bytes, offset, loadable}], totals {type: {tensors, elements, bytes}}. Bytes that are not
/// UTF-8 become U+FFFD.
std::string inspect_json(const GgufFile& file);

}  // namespace monotile::engine
