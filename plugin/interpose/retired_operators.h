// Operators that the program makes.
#pragma once

namespace terse::interpose {

// Those that the program has destroyed inside the thread's group while its calls still wait to use
// them; after the group's end, however that came.
void destroy_retired_operators() noexcept;

}  // namespace terse::interpose
