#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "oncectl.h"

int main(int argc, char** argv) {
  try {
    once::cli::World world{std::cin,
                           std::cout,
                           std::cerr,
                           once::MakeConnection,
                           once::MakeAdminConnection,
                           once::MakeOperatorConnection};
    return static_cast<int>(once::cli::Run(std::vector<std::string>(argv + 1, argv + argc), world));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oncectl: %s\n", error.what());
    return static_cast<int>(once::cli::ExitCode::kError);
  }
}
