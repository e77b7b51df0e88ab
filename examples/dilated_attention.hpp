#pragma once
#include "monotile/ops/attention.hpp"

/// A query sees itself and every `step`-th key before it; a weight is divided by (1 + distance)^power. Arguments as for
/// monotile::ops::attention; bf16, head dimensions up to 128.
void dilated_attention(monotile::Context& context, const monotile::ops::AttentionArgs& args, int step, float power);
