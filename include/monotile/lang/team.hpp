#pragma once
// Teams: neighbouring programs that work on one row and tell each other what they found. Kernels that need it include this beside lang.hpp; where
// `kTeams` is false (or a row wants a larger team) the host takes two launches instead.

#include "monotile/lang/backend/team.hpp"
#include "monotile/lang/lang.hpp"
