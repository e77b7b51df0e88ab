// monotile inspect: metadata, tensors, types and sizes of a GGUF file.

#include "engine/inspect.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/table.hpp"

namespace monotile::cli {

void add_inspect_command(CLI::App& app, int& exit_code) {
  struct Options {
    std::string file;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show metadata, tensors, types and sizes of a GGUF file");
  command->add_option("FILE", options->file, "The GGUF file")->required()->type_name("");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] {
    const engine::GgufFile file = engine::GgufFile::open(options->file);
    print(options->json ? engine::inspect_json(file) + "\n" : engine::inspect_text(file));
    exit_code = 0;
  });
}

}  // namespace monotile::cli
