#pragma once
// The tile language: what a kernel includes. See docs/language.md for the words and what each target makes of them.

#include "monotile/lang/backend/backend.hpp"
#include "monotile/lang/layout.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/lang/repeat.hpp"
#include "monotile/lang/view.hpp"
