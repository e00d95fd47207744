// Operators that the program has destroyed while a group still uses them.
#pragma once

namespace terse::interpose {

// Destroys the operators that the program destroyed inside the thread's group. Called after the
// group's end, however that came.
void destroy_retired_operators() noexcept;

}  // namespace terse::interpose
