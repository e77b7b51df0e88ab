#pragma once
// Syntax tree of a template. Built by jinja_parse.cpp, walked by jinja_eval.cpp.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja_value.hpp"
#include "monotile/error.hpp"

namespace monotile::engine::jinja {

enum class Op : uint8_t {
  constant,     // value
  name,         // text
  list,         // args
  dict,         // args: key, value, key, value, ...
  attribute,    // args[0] . text
  index,        // args[0] [ args[1] ]
  slice,        // args[0] [ args[1] : args[2] : args[3] ], null where left out
  call,         // args[0] ( args[1..], named )
  filter,       // args[0] | text ( args[1..], named )
  test,         // args[0] is text ( args[1..] )
  negate,       // - args[0]
  plus,         // + args[0]
  logical_not,  // not args[0]
  logical_and,
  logical_or,
  conditional,  // args[1] if args[0] else args[2] (null: undefined)
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concatenate,  // ~
  refuse,       // Error(unsupported) with text
  compare,      // args[0] text[0] args[1] text[1] ...; one character per operator, see kCompare*
};

inline constexpr char kCompareEqual = '=', kCompareUnequal = '!', kCompareLess = '<', kCompareGreater = '>',
                      kCompareLessEqual = 'l', kCompareGreaterEqual = 'g', kCompareIn = 'i', kCompareNotIn = 'n';

struct Expr {
  Op op = Op::constant;
  int line = 0;
  int depth = 1;  ///< of the tree below; bounded by the parser
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Expr>> args;
  std::vector<std::pair<std::string, std::unique_ptr<Expr>>> named;
};
using ExprPtr = std::unique_ptr<Expr>;

enum class StmtKind : uint8_t {
  text,          // text
  output,        // exprs[0]
  branch,        // bodies[i] if exprs[i]; one more body: else
  loop,          // for targets in exprs[0] if exprs[1] (may be null): bodies[0] else bodies[1]
  assign,        // targets (or targets[0].text) = exprs[0]
  assign_block,  // targets[0] = output of bodies[0]
  macro,         // text (targets, defaults: exprs, null where none): bodies[0]
  stop,          // break
  skip,          // continue
  group,         // bodies[0]
  refuse,        // Error(unsupported) with text
};

struct Stmt {
  StmtKind kind = StmtKind::text;
  int line = 0;
  std::string text;
  std::vector<std::string> targets;
  std::vector<ExprPtr> exprs;
  std::vector<std::vector<Stmt>> bodies;
};
using Block = std::vector<Stmt>;

/// Throws Error with "chat template: line N: text".
[[noreturn]] void fail(ErrorCode code, int line, const std::string& text);

/// Throws Error(bad_file) for wrong syntax, Error(unsupported) for statements that are not part of the subset.
Block parse(std::string_view source);

}  // namespace monotile::engine::jinja
