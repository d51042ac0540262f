// What a job may say about the containers of its ranks. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// Why `word`, an item of `container.options` behind `before` (empty: the first), cannot be given to
// the engine: it is an option that Muster sets itself, or none at all. Empty: it can.
std::string ContainerOptionProblem(std::string_view word, std::string_view before);

// What is wrong with the last of the options. Empty: nothing.
std::string LastContainerOptionProblem(std::string_view word);

// Why this is no name of an image. Empty: it may be one.
std::string ImageProblem(std::string_view image);

// Everything that is wrong, for specifications that do not come from a job file: `container.image:
// ...`.
std::vector<std::string> ContainerProblems(const v1::ContainerSpec& container);

}  // namespace muster
