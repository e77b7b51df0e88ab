// RMSNorm with quantised output of long rows by teams of programs, compiled once per target that has teams.

#include "ops/norm/register_team_norm.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

// Named apart from those of the other files: compilers take aliases of one name in unnamed namespaces for the same.
template <class X, class R, class G>
using TeamRmsNormQuantise = kernels::RmsNormTeam<X, R, team_layout, G, true>;

void register_kernels_team_rms_norm_quantise() { register_team_norm<TeamRmsNormQuantise, true>("rms_norm_quantise_team"); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
