// Lexer and parser of the template language.

#include <algorithm>
#include <charconv>

#include "engine/gguf.hpp"  // printable()
#include "engine/jinja_ast.hpp"

namespace monotile::engine::jinja {

void fail(ErrorCode code, int line, const std::string& text) {
  throw Error(code, "chat template: line " + std::to_string(line) + ": " + text);
}

namespace {

constexpr size_t kMaxSource = size_t{1} << 20;
constexpr int kMaxExprDepth = 120;    // of the tree, hence of the evaluator's recursion
constexpr int kMaxParseNesting = 60;  // brackets in brackets: each costs a dozen parser frames
constexpr int kMaxBlockNesting = 40;

enum class TokenKind : uint8_t {
  text,
  output_begin,
  output_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;
};

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
            static_cast<char>(0x80 | (code & 0x3F))};
  } else {
    out += {static_cast<char>(0xF0 | (code >> 18)), static_cast<char>(0x80 | ((code >> 12) & 0x3F)),
            static_cast<char>(0x80 | ((code >> 6) & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag(at_);
      if (tag == std::string::npos) {
        add_text(source_.substr(at_));
        count_lines(at_, source_.size());
        break;
      }
      const char kind = source_[tag + 1];
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      add_text(trimmed(source_.substr(at_, tag - at_), sign, kind != '{'));
      count_lines(at_, tag);
      at_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      if (kind == '#') {
        comment();
      } else if (kind == '%' && raw_begins()) {
        raw();
      } else {
        expression_tag(kind == '{');
      }
      starts_line_ = at_ > 0 && source_[at_ - 1] == '\n';
    }
    tokens_.push_back({TokenKind::end, line_, ""});
    return std::move(tokens_);
  }

 private:
  /// One kind of newline, and none at the very end, as the reference implementation has it.
  static std::string normalise(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') {
        out += source[i];
        continue;
      }
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }

  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1)) {
      const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return std::string::npos;
  }

  /// Text before a tag: `-` strips all white space, otherwise a block tag strips the indentation of its own line.
  std::string trimmed(std::string text, char sign, bool block) const {
    if (sign == '-') return std::string(strip(text, false, true));
    if (sign == '+' || !block) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string::npos && !starts_line_) return text;
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (strip(std::string_view(text).substr(begin), true, false).empty()) text.resize(begin);
    return text;
  }

  void add_text(std::string text) {
    if (!text.empty()) tokens_.push_back({TokenKind::text, line_, std::move(text)});
  }

  void count_lines(size_t begin, size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(begin),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
  }

  void skip_space() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    const size_t skipped = rest.size() - strip(rest, true, false).size();
    count_lines(at_, at_ + skipped);
    at_ += skipped;
  }

  /// What follows a tag whose last sign is `sign`.
  void after_tag(char sign, bool block) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && block && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
      ++line_;
    }
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail(ErrorCode::bad_file, line_, "comment without #}");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    count_lines(at_, end);
    at_ = end + 2;
    after_tag(sign, true);
  }

  /// Length of "<spaces>word<spaces>[sign]%}" at `at`, 0 if it is not there.
  size_t tag_length(size_t at, std::string_view word, char* sign) const {
    size_t i = at;
    while (i < source_.size() && is_space(source_[i])) ++i;
    if (source_.compare(i, word.size(), word) != 0) return 0;
    i += word.size();
    while (i < source_.size() && is_space(source_[i])) ++i;
    *sign = i < source_.size() ? source_[i] : '\0';
    if (*sign == '-' || *sign == '+') ++i;
    return source_.compare(i, 2, "%}") == 0 ? i + 2 - at : 0;
  }

  bool raw_begins() const {
    char sign = '\0';
    return tag_length(at_, "raw", &sign) > 0 && sign != '+';
  }

  void raw() {
    char sign = '\0';
    const size_t length = tag_length(at_, "raw", &sign);
    const int begun = line_;
    count_lines(at_, at_ + length);
    at_ += length;
    if (sign == '-') skip_space();
    for (size_t i = source_.find("{%", at_); i != std::string::npos; i = source_.find("{%", i + 2)) {
      const char before = i + 2 < source_.size() ? source_[i + 2] : '\0';
      const size_t tag = i + 2 + (before == '-' || before == '+' ? 1 : 0);
      char after = '\0';
      const size_t end = tag_length(tag, "endraw", &after);
      if (end == 0) continue;
      starts_line_ = false;
      add_text(trimmed(source_.substr(at_, i - at_), before, true));
      count_lines(at_, tag + end);
      at_ = tag + end;
      after_tag(after, true);
      return;
    }
    fail(ErrorCode::bad_file, begun, "raw without endraw");
  }

  void expression_tag(bool output) {
    tokens_.push_back({output ? TokenKind::output_begin : TokenKind::block_begin, line_, ""});
    const int begun = line_;
    const std::string_view close = output ? "}}" : "%}";
    std::string brackets;
    for (;;) {
      while (at_ < source_.size() && is_space(source_[at_])) {
        if (source_[at_] == '\n') ++line_;
        ++at_;
      }
      if (at_ >= source_.size()) fail(ErrorCode::bad_file, begun, output ? "{{ without }}" : "{% without %}");
      const char c = source_[at_];
      if (brackets.empty()) {
        const bool sign = c == '-' || (c == '+' && !output);
        if (source_.compare(at_ + (sign ? 1 : 0), 2, close) == 0) {
          tokens_.push_back({output ? TokenKind::output_end : TokenKind::block_end, line_, ""});
          at_ += close.size() + (sign ? 1 : 0);
          after_tag(sign ? c : '\0', !output);
          return;
        }
      }
      if (is_name_start(c)) {
        name();
      } else if (is_digit(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string_literal(c);
      } else {
        op(brackets);
      }
    }
  }

  void name() {
    const size_t begin = at_;
    while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
    tokens_.push_back({TokenKind::name, line_, source_.substr(begin, at_ - begin)});
  }

  void number() {
    const size_t begin = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    };
    digits();
    bool real = false;
    const bool subscript = begin > 0 && source_[begin - 1] == '.';  // x.0.1 is two subscripts
    if (!subscript && at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      real = true;
      ++at_;
      digits();
    }
    if (!subscript && at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      size_t next = at_ + 1;
      if (next < source_.size() && (source_[next] == '+' || source_[next] == '-')) ++next;
      if (next < source_.size() && is_digit(source_[next])) {
        real = true;
        at_ = next;
        digits();
      }
    }
    tokens_.push_back({real ? TokenKind::real : TokenKind::integer, line_, source_.substr(begin, at_ - begin)});
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < source_.size() ? source_[at_] : '\0';
      uint32_t digit;
      if (is_digit(c)) {
        digit = static_cast<uint32_t>(c - '0');
      } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
        digit = static_cast<uint32_t>((c | 32) - 'a' + 10);
      } else {
        fail(ErrorCode::bad_file, line_, "incomplete hexadecimal escape in a string");
      }
      value = value * 16 + digit;
    }
    return value;
  }

  void string_literal(char quote) {
    const int begun = line_;
    std::string text;
    ++at_;
    for (;;) {
      if (at_ >= source_.size()) fail(ErrorCode::bad_file, begun, "string without closing quote");
      const char c = source_[at_++];
      if (c == quote) break;
      if (c == '\n') ++line_;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (at_ >= source_.size()) fail(ErrorCode::bad_file, begun, "string without closing quote");
      escape(source_[at_++], text);
    }
    tokens_.push_back({TokenKind::string, begun, std::move(text)});
  }

  void escape(char c, std::string& text) {
    switch (c) {
      case 'n': text += '\n'; return;
      case 't': text += '\t'; return;
      case 'r': text += '\r'; return;
      case 'a': text += '\a'; return;
      case 'b': text += '\b'; return;
      case 'f': text += '\f'; return;
      case 'v': text += '\v'; return;
      case '\\':
      case '\'':
      case '"': text += c; return;
      case '\n': ++line_; return;  // a backslash before a newline joins the lines
      case 'x': append_utf8(hex(2), text); return;
      case 'u':
      case 'U': {
        const uint32_t code = hex(c == 'u' ? 4 : 8);
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
          fail(ErrorCode::bad_file, line_, "escape of no character in a string");
        append_utf8(code, text);
        return;
      }
      default: break;
    }
    if (c >= '0' && c <= '7') {
      auto code = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(source_[at_++] - '0');
      }
      append_utf8(code, text);
      return;
    }
    text += '\\';  // an unknown escape stands for itself
    text += c;
  }

  void op(std::string& brackets) {
    static constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
    static constexpr std::string_view kOne = "+-*/%~<>=()[]{}.,:|";
    for (const std::string_view two : kTwo) {
      if (source_.compare(at_, 2, two) == 0) {
        tokens_.push_back({TokenKind::op, line_, std::string(two)});
        at_ += 2;
        return;
      }
    }
    const char c = source_[at_];
    if (kOne.find(c) == std::string_view::npos) {
      fail(ErrorCode::bad_file, line_, "character '" + printable(source_.substr(at_, 1)) + "' in an expression");
    }
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        fail(ErrorCode::bad_file, line_, std::string("unexpected '") + c + "'");
      brackets.pop_back();
    }
    tokens_.push_back({TokenKind::op, line_, std::string(1, c)});
    ++at_;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block run() {
    std::string stopped;
    return block({}, stopped);
  }

 private:
  // --- tokens ---------------------------------------------------------------------------------------------------------
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  int line() const { return peek().line; }

  bool is(TokenKind kind, std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool is_op(std::string_view text, size_t ahead = 0) const { return is(TokenKind::op, text, ahead); }
  bool is_name(std::string_view text, size_t ahead = 0) const { return is(TokenKind::name, text, ahead); }

  bool accept_op(std::string_view text) {
    if (!is_op(text)) return false;
    ++at_;
    return true;
  }
  bool accept_name(std::string_view text) {
    if (!is_name(text)) return false;
    ++at_;
    return true;
  }

  std::string found() const {
    const Token& t = peek();
    switch (t.kind) {
      case TokenKind::text: return "text";
      case TokenKind::output_begin: return "'{{'";
      case TokenKind::output_end: return "'}}'";
      case TokenKind::block_begin: return "'{%'";
      case TokenKind::block_end: return "'%}'";
      case TokenKind::end: return "the end of the template";
      default: return "'" + printable(t.text) + "'";
    }
  }

  [[noreturn]] void unexpected(const std::string& wanted) const {
    fail(ErrorCode::bad_file, line(), found() + ", expected " + wanted);
  }

  void expect_op(std::string_view text) {
    if (!accept_op(text)) unexpected("'" + std::string(text) + "'");
  }

  std::string expect_name(const char* what) {
    if (peek().kind != TokenKind::name) unexpected(what);
    return tokens_[at_++].text;
  }

  void expect_block_end() {
    if (peek().kind != TokenKind::block_end) unexpected("'%}'");
    ++at_;
  }

  struct Nesting {
    Nesting(int& level, int limit, int line) : level_(level) {
      if (++level_ > limit) {
        --level_;
        fail(ErrorCode::bad_file, line, "nested deeper than " + std::to_string(limit));
      }
    }
    ~Nesting() { --level_; }
    int& level_;
  };

  // --- statements -----------------------------------------------------------------------------------------------------
  /// Statements up to a block tag named in `stops` (whose name has been read), or to the end if there are none.
  Block block(const std::vector<std::string_view>& stops, std::string& stopped) {
    const Nesting nesting(block_level_, kMaxBlockNesting, line());
    Block out;
    for (;;) {
      const Token& t = peek();
      if (t.kind == TokenKind::end) {
        if (stops.empty()) return out;
        fail(ErrorCode::bad_file, t.line, "the template ends where '" + std::string(stops.back()) + "' is expected");
      }
      if (t.kind == TokenKind::text) {
        Stmt s;
        s.kind = StmtKind::text;
        s.line = t.line;
        s.text = std::move(tokens_[at_].text);
        ++at_;
        out.push_back(std::move(s));
        continue;
      }
      if (t.kind == TokenKind::output_begin) {
        ++at_;
        Stmt s;
        s.kind = StmtKind::output;
        s.line = t.line;
        s.exprs.push_back(tuple());
        if (peek().kind != TokenKind::output_end) unexpected("'}}'");
        ++at_;
        out.push_back(std::move(s));
        continue;
      }
      ++at_;  // '{%': every other token is inside a tag and consumed with it
      const std::string word = expect_name("the name of a statement");
      if (std::find(stops.begin(), stops.end(), word) != stops.end()) {
        stopped = word;
        return out;
      }
      out.push_back(statement(word));
    }
  }

  Stmt statement(const std::string& word) {
    Stmt s;
    s.line = line();
    if (word == "if") {
      branch(s);
    } else if (word == "for") {
      loop(s);
    } else if (word == "set") {
      assign(s);
    } else if (word == "macro") {
      macro(s);
    } else if (word == "break" || word == "continue") {
      if (loop_level_ == 0) fail(ErrorCode::bad_file, s.line, word + " outside a loop");
      s.kind = word == "break" ? StmtKind::stop : StmtKind::skip;
      expect_block_end();
    } else if (word == "generation") {
      expect_block_end();
      s.kind = StmtKind::group;
      body(s, {"endgeneration"});
      expect_block_end();
    } else if (word == "call" || word == "filter") {
      // Refused only where it is reached: several models' templates have one in the part for tools.
      s.kind = StmtKind::refuse;
      s.text = "statement '" + word + "' is not supported";
      while (peek().kind != TokenKind::block_end) ++at_;
      expect_block_end();
      body(s, {word == "call" ? "endcall" : "endfilter"});
      expect_block_end();
    } else {
      fail(ErrorCode::unsupported, s.line,
           "statement '" + printable(word) +
               "' is not supported; allowed are for, if, set, macro, break, continue, raw, generation");
    }
    return s;
  }

  std::string body(Stmt& s, const std::vector<std::string_view>& stops) {
    std::string stopped;
    s.bodies.push_back(block(stops, stopped));
    return stopped;
  }

  void branch(Stmt& s) {
    s.kind = StmtKind::branch;
    for (;;) {
      s.exprs.push_back(tuple());
      expect_block_end();
      std::string stopped = body(s, {"elif", "else", "endif"});
      if (stopped == "else") {
        expect_block_end();
        stopped = body(s, {"endif"});
      }
      if (stopped == "endif") break;
    }
    expect_block_end();
  }

  void loop(Stmt& s) {
    s.kind = StmtKind::loop;
    const bool bracket = accept_op("(");
    do {
      s.targets.push_back(expect_name("a loop variable"));
    } while (accept_op(",") && peek().kind == TokenKind::name && !is_name("in"));
    if (bracket) expect_op(")");
    if (!accept_name("in")) unexpected("'in'");
    s.exprs.push_back(tuple(false));
    s.exprs.push_back(accept_name("if") ? expression() : nullptr);
    if (is_name("recursive")) fail(ErrorCode::unsupported, line(), "recursive loops are not supported");
    expect_block_end();
    ++loop_level_;
    std::string stopped = body(s, {"else", "endfor"});
    --loop_level_;
    if (stopped == "else") {
      expect_block_end();
      body(s, {"endfor"});
    }
    expect_block_end();
  }

  void assign(Stmt& s) {
    s.kind = StmtKind::assign;
    const bool bracket = accept_op("(");
    s.targets.push_back(expect_name("a variable"));
    if (!bracket && accept_op(".")) {
      s.text = expect_name("an attribute");
    } else {
      while (accept_op(",")) s.targets.push_back(expect_name("a variable"));
    }
    if (bracket) expect_op(")");
    if (accept_op("=")) {
      s.exprs.push_back(tuple());
      expect_block_end();
      return;
    }
    if (s.targets.size() > 1 || !s.text.empty()) unexpected("'='");
    if (is_op("|")) fail(ErrorCode::unsupported, line(), "filters on a set block are not supported");
    s.kind = StmtKind::assign_block;
    expect_block_end();
    body(s, {"endset"});
    expect_block_end();
  }

  void macro(Stmt& s) {
    s.kind = StmtKind::macro;
    s.text = expect_name("the name of the macro");
    expect_op("(");
    while (!is_op(")")) {
      s.targets.push_back(expect_name("a parameter"));
      s.exprs.push_back(accept_op("=") ? expression() : nullptr);
      if (!is_op(")")) expect_op(",");
    }
    expect_op(")");
    expect_block_end();
    const int loops = std::exchange(loop_level_, 0);
    body(s, {"endmacro"});
    loop_level_ = loops;
    accept_name(s.text);
    expect_block_end();
  }

  // --- expressions ----------------------------------------------------------------------------------------------------
  static ExprPtr make(Op op, int line) {
    auto e = std::make_unique<Expr>();
    e->op = op;
    e->line = line;
    return e;
  }

  static void adopt(Expr& parent, ExprPtr child) {
    if (child != nullptr) parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxExprDepth) {
      fail(ErrorCode::bad_file, parent.line, "expression nested deeper than " + std::to_string(kMaxExprDepth));
    }
    parent.args.push_back(std::move(child));
  }

  static ExprPtr binary(Op op, int line, ExprPtr left, ExprPtr right) {
    ExprPtr e = make(op, line);
    adopt(*e, std::move(left));
    adopt(*e, std::move(right));
    return e;
  }

  /// expression [, expression ...]: a list if there is a comma.
  ExprPtr tuple(bool conditional = true) {
    ExprPtr first = conditional ? expression() : disjunction();
    if (!is_op(",")) return first;
    ExprPtr list = make(Op::list, first->line);
    adopt(*list, std::move(first));
    while (accept_op(",")) {
      const TokenKind next = peek().kind;
      if (next == TokenKind::block_end || next == TokenKind::output_end || is_op(")")) break;
      adopt(*list, conditional ? expression() : disjunction());
    }
    return list;
  }

  ExprPtr expression() {
    const Nesting nesting(expression_level_, kMaxParseNesting, line());
    ExprPtr value = disjunction();
    while (is_name("if")) {
      const int at = line();
      ++at_;
      ExprPtr e = make(Op::conditional, at);
      adopt(*e, disjunction());
      adopt(*e, std::move(value));
      adopt(*e, accept_name("else") ? expression() : nullptr);
      value = std::move(e);
    }
    return value;
  }

  ExprPtr disjunction() {
    ExprPtr left = conjunction();
    while (is_name("or")) {
      const int at = line();
      ++at_;
      left = binary(Op::logical_or, at, std::move(left), conjunction());
    }
    return left;
  }

  ExprPtr conjunction() {
    ExprPtr left = negation();
    while (is_name("and")) {
      const int at = line();
      ++at_;
      left = binary(Op::logical_and, at, std::move(left), negation());
    }
    return left;
  }

  ExprPtr negation() {
    if (!is_name("not")) return comparison();
    const Nesting nesting(expression_level_, kMaxParseNesting, line());
    ExprPtr e = make(Op::logical_not, line());
    ++at_;
    adopt(*e, negation());
    return e;
  }

  char comparison_operator() const {
    static constexpr std::pair<std::string_view, char> kOperators[] = {
        {"==", kCompareEqual},  {"!=", kCompareUnequal},   {"<", kCompareLess},
        {">", kCompareGreater}, {"<=", kCompareLessEqual}, {">=", kCompareGreaterEqual},
    };
    for (const auto& [text, code] : kOperators) {
      if (is_op(text)) return code;
    }
    if (is_name("in")) return kCompareIn;
    if (is_name("not") && is_name("in", 1)) return kCompareNotIn;
    return '\0';
  }

  ExprPtr comparison() {
    ExprPtr first = sum();
    char code = comparison_operator();
    if (code == '\0') return first;
    ExprPtr e = make(Op::compare, line());
    adopt(*e, std::move(first));
    for (; code != '\0'; code = comparison_operator()) {
      at_ += code == kCompareNotIn ? 2 : 1;
      e->text += code;
      adopt(*e, sum());
    }
    return e;
  }

  ExprPtr sum() {
    ExprPtr left = concatenation();
    while (is_op("+") || is_op("-")) {
      const Op op = is_op("+") ? Op::add : Op::subtract;
      const int at = line();
      ++at_;
      left = binary(op, at, std::move(left), concatenation());
    }
    return left;
  }

  ExprPtr concatenation() {
    ExprPtr first = product();
    if (!is_op("~")) return first;
    ExprPtr e = make(Op::concatenate, line());
    adopt(*e, std::move(first));
    while (accept_op("~")) adopt(*e, product());
    return e;
  }

  ExprPtr product() {
    ExprPtr left = power();
    for (;;) {
      Op op;
      if (is_op("*")) {
        op = Op::multiply;
      } else if (is_op("/")) {
        op = Op::divide;
      } else if (is_op("//")) {
        op = Op::floor_divide;
      } else if (is_op("%")) {
        op = Op::modulo;
      } else {
        return left;
      }
      const int at = line();
      ++at_;
      left = binary(op, at, std::move(left), power());
    }
  }

  ExprPtr power() {
    ExprPtr left = unary(true);
    while (is_op("**")) {
      const int at = line();
      ++at_;
      left = binary(Op::power, at, std::move(left), unary(true));
    }
    return left;
  }

  ExprPtr unary(bool with_filter) {
    ExprPtr e;
    if (is_op("-") || is_op("+")) {
      const Nesting nesting(expression_level_, kMaxParseNesting, line());
      e = make(is_op("-") ? Op::negate : Op::plus, line());
      ++at_;
      adopt(*e, unary(false));
    } else {
      e = postfix(primary());
    }
    return with_filter ? filters(std::move(e)) : std::move(e);
  }

  ExprPtr constant(Value value) {
    ExprPtr e = make(Op::constant, line());
    e->value = std::move(value);
    ++at_;
    return e;
  }

  ExprPtr primary() {
    const Token& t = peek();
    switch (t.kind) {
      case TokenKind::name: {
        if (t.text == "true" || t.text == "True") return constant(Value(true));
        if (t.text == "false" || t.text == "False") return constant(Value(false));
        if (t.text == "none" || t.text == "None") return constant(Value::none());
        ExprPtr e = make(Op::name, t.line);
        e->text = t.text;
        ++at_;
        return e;
      }
      case TokenKind::string: {
        std::string text;
        const int at = t.line;
        while (peek().kind == TokenKind::string) text += tokens_[at_++].text;  // neighbours join, as in Python
        ExprPtr e = make(Op::constant, at);
        e->value = Value(std::move(text));
        return e;
      }
      case TokenKind::integer: {
        int64_t value = 0;
        if (std::from_chars(t.text.data(), t.text.data() + t.text.size(), value).ec != std::errc()) {
          fail(ErrorCode::bad_file, t.line, "number " + printable(t.text, 30) + " does not fit 64 bits");
        }
        return constant(Value(value));
      }
      case TokenKind::real: {
        double value = 0;
        if (std::from_chars(t.text.data(), t.text.data() + t.text.size(), value).ec != std::errc()) {
          fail(ErrorCode::bad_file, t.line, "number " + printable(t.text, 30) + " does not fit a double");
        }
        return constant(Value(value));
      }
      case TokenKind::op: break;
      default: unexpected("an expression");
    }
    if (accept_op("(")) {
      if (is_op(")")) {
        ExprPtr e = make(Op::list, line());
        ++at_;
        return e;
      }
      ExprPtr e = tuple();
      expect_op(")");
      return e;
    }
    if (is_op("[")) return sequence(Op::list, "]");
    if (is_op("{")) return sequence(Op::dict, "}");
    unexpected("an expression");
  }

  ExprPtr sequence(Op op, std::string_view close) {
    ExprPtr e = make(op, line());
    ++at_;
    while (!is_op(close)) {
      adopt(*e, expression());
      if (op == Op::dict) {
        expect_op(":");
        adopt(*e, expression());
      }
      if (!is_op(close)) expect_op(",");
    }
    ++at_;
    return e;
  }

  ExprPtr postfix(ExprPtr e) {
    for (;;) {
      const int at = line();
      if (accept_op(".")) {
        ExprPtr next = make(Op::attribute, at);
        if (peek().kind == TokenKind::integer) {  // x.0 is x[0]
          next->op = Op::index;
          adopt(*next, std::move(e));
          adopt(*next, primary());
        } else {
          next->text = expect_name("an attribute");
          adopt(*next, std::move(e));
        }
        e = std::move(next);
      } else if (accept_op("[")) {
        e = subscript(std::move(e), at);
      } else if (is_op("(")) {
        ExprPtr call = make(Op::call, at);
        adopt(*call, std::move(e));
        arguments(*call);
        e = std::move(call);
      } else {
        return e;
      }
    }
  }

  ExprPtr subscript(ExprPtr object, int at) {
    ExprPtr e = make(Op::index, at);
    adopt(*e, std::move(object));
    ExprPtr parts[3];
    int colons = 0;
    for (;;) {
      if (is_op("]")) break;
      if (accept_op(":")) {
        if (++colons > 2) unexpected("']'");
        continue;
      }
      if (parts[colons] != nullptr) unexpected("']'");
      parts[colons] = expression();
    }
    expect_op("]");
    if (colons > 0) {
      e->op = Op::slice;
      for (ExprPtr& part : parts) adopt(*e, std::move(part));
    } else if (parts[0] == nullptr) {
      fail(ErrorCode::bad_file, at, "empty subscript");
    } else {
      adopt(*e, std::move(parts[0]));
    }
    return e;
  }

  /// "( ... )" after a callee, a filter or a test.
  void arguments(Expr& call) {
    expect_op("(");
    while (!is_op(")")) {
      if (accept_op("*") || accept_op("**")) {
        ExprPtr refused = make(Op::refuse, line());
        refused->text = "starred arguments are not supported";
        expression();
        adopt(call, std::move(refused));
      } else if (peek().kind == TokenKind::name && is_op("=", 1)) {
        std::string name = tokens_[at_].text;
        at_ += 2;
        ExprPtr value = expression();
        call.depth = std::max(call.depth, value->depth + 1);
        call.named.emplace_back(std::move(name), std::move(value));
      } else {
        if (!call.named.empty()) unexpected("a named argument");
        adopt(call, expression());
      }
      if (!is_op(")")) expect_op(",");
    }
    ++at_;
  }

  ExprPtr filters(ExprPtr e) {
    for (;;) {
      const int at = line();
      if (accept_op("|")) {
        ExprPtr next = make(Op::filter, at);
        next->text = expect_name("the name of a filter");
        adopt(*next, std::move(e));
        if (is_op("(")) arguments(*next);
        e = std::move(next);
      } else if (accept_name("is")) {
        const bool negated = accept_name("not");
        ExprPtr next = make(Op::test, at);
        next->text = expect_name("the name of a test");
        adopt(*next, std::move(e));
        if (is_op("(")) {
          arguments(*next);
        } else if (test_argument_follows()) {
          adopt(*next, postfix(primary()));
        }
        e = std::move(next);
        if (negated) {
          ExprPtr inverse = make(Op::logical_not, at);
          adopt(*inverse, std::move(e));
          e = std::move(inverse);
        }
      } else if (is_op("(")) {
        ExprPtr call = make(Op::call, at);
        adopt(*call, std::move(e));
        arguments(*call);
        e = std::move(call);
      } else {
        return e;
      }
    }
  }

  /// "x is divisibleby 3": an argument without brackets.
  bool test_argument_follows() const {
    const Token& t = peek();
    if (t.kind == TokenKind::string || t.kind == TokenKind::integer || t.kind == TokenKind::real) return true;
    if (t.kind == TokenKind::op) return t.text == "[" || t.text == "{";
    if (t.kind != TokenKind::name) return false;
    static constexpr std::string_view kNot[] = {"else", "or", "and", "is", "if", "in", "not", "recursive"};
    return std::find(std::begin(kNot), std::end(kNot), t.text) == std::end(kNot);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int block_level_ = 0, expression_level_ = 0, loop_level_ = 0;
};

}  // namespace

Block parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    throw Error(ErrorCode::bad_file, "chat template: " + std::to_string(source.size()) +
                                         " bytes, allowed are at most " + std::to_string(kMaxSource));
  }
  return Parser(Lexer(source).run()).run();
}

}  // namespace monotile::engine::jinja
