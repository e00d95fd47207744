/* Flags of fused collectives: ranks push into each other's windows, and wait by flags that only grow.
 *
 * All ranks make the same calls, which are drawn: two-shot ones (push; sum; push the sum), and those of
 * one exchange (one-shot AllReduce, AllGather, ReduceScatter), which take two slots by turns. A call
 * has one tile or two, done by one unit of threads or by two; a unit does a tile in a lap.
 *
 * What is pushed arrives at once, and its flag with it: as early as can be, so that it may overwrite
 * what is still to be read. A flag has one reader, and only grows: one that arrives late is the same as
 * one that is looked at late. That data arrives before its flag is the matter of fences.
 *
 * Checked: a place is read when it has what the call expects, and is overwritten only after; nobody is
 * left waiting; nobody writes into a window that is gone. Rank 0 may give up wherever it waits, and
 * then whoever waits; the kernels that are on their streams already run after that.
 *
 * Faults to plant, each by -D: NO_FIRST_WAIT, NO_SECOND_WAIT, OLD_EPOCH, NO_TURN, NO_JOIN, NO_LOOK,
 * FREE_EARLY. */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef TILES
#define TILES 2
#endif
#ifndef UNITS
#define UNITS 2
#endif

bool two_shot[CALLS];
byte tiles[CALLS], units[CALLS], slot[CALLS];

/* Places, by reader, writer and tile: the call whose content each has, and whether it is still to be
 * read. Rows: the halves of two-shot calls, and the slots of the others. */
#define ROWS 4
#define FIRST_ROW(call) (two_shot[call] -> 0 : 2 + slot[call])
#define PLACE(row, reader, writer, tile) \
  ((((row) * RANKS + (reader)) * RANKS + (writer)) * TILES + (tile))
byte content[ROWS * RANKS * RANKS * TILES];
bool to_be_read[ROWS * RANKS * RANKS * TILES];

/* Flags, by half, reader, writer and unit: laps of the unit, over all calls. */
#define FLAG(half, reader, writer, unit) \
  ((((half) * RANKS + (reader)) * RANKS + (writer)) * UNITS + (unit))
byte flag[2 * RANKS * RANKS * UNITS];

byte begun[RANKS], ended[RANKS];  /* kernels; units that have ended the one that runs */
bool given_up[RANKS];
byte gone[RANKS];                 /* units */
bool is_freed[RANKS];             /* the rank's window */

#define HAS_LEFT(rank) (gone[rank] == UNITS)

/* To all peers: what is pushed, and flags. */
inline push(half, row) {
  for (peer : 0 .. RANKS - 1) {
    if
    :: peer == rank -> skip
    :: else ->
      assert(!is_freed[peer]);
      assert(!to_be_read[PLACE(row, peer, rank, tile)]);
      content[PLACE(row, peer, rank, tile)] = call + 1;
      to_be_read[PLACE(row, peer, rank, tile)] = true;
      flag[FLAG(half, peer, rank, unit)] = lap
    fi
  }
  peer = 0
}

/* From all peers. */
inline take(row) {
  for (peer : 0 .. RANKS - 1) {
    if
    :: peer == rank -> skip
    :: else ->
      assert(content[PLACE(row, rank, peer, tile)] == call + 1);
      to_be_read[PLACE(row, rank, peer, tile)] = false
    fi
  }
  peer = 0
}

#define HAS_FLAG(half, peer) (peer == rank || flag[FLAG(half, rank, peer, unit)] >= WANTED)
#ifdef OLD_EPOCH
#define WANTED (lap > 1 -> lap - 1 : lap)
#else
#define WANTED lap
#endif
#if RANKS == 2
#define HAS_FLAGS(half) (HAS_FLAG(half, 0) && HAS_FLAG(half, 1))
#else
#define HAS_FLAGS(half) (HAS_FLAG(half, 0) && HAS_FLAG(half, 1) && HAS_FLAG(half, 2))
#endif

inline wait(half) {
  if
  :: HAS_FLAGS(half)
#ifndef NOBODY_GIVES_UP
  :: !HAS_FLAGS(half) && (rank == 0 || given_up[0]) -> given_up[rank] = true; goto kernel_ends
#endif
  fi
}

/* A kernel that is already on the stream when its rank gives up looks before its first push. */
#ifdef NO_LOOK
#define HAS_WORK (unit < units[call] && tile < tiles[call])
#else
#define HAS_WORK (unit < units[call] && tile < tiles[call] && !given_up[rank])
#endif

proctype Unit(byte rank, unit) {
  byte call = 0, tile = unit, lap = 0, peer = 0;
  do
  :: call == CALLS -> break
  :: call < CALLS && HAS_WORK ->
    d_step { lap++; push(0, FIRST_ROW(call)) };
#ifndef NO_FIRST_WAIT
    wait(0);
#endif
    if
    :: two_shot[call] ->
      d_step { take(0); push(1, 1) };
#ifndef NO_SECOND_WAIT
      wait(1);
#endif
      d_step { take(1); tile = tile + units[call] }
    :: else -> d_step { take(FIRST_ROW(call)); tile = tile + units[call] }
    fi
  :: call < CALLS && !HAS_WORK ->
kernel_ends: skip;
    d_step {
      ended[rank]++;
      if
      :: ended[rank] == UNITS -> ended[rank] = 0; begun[rank]++
      :: else -> skip
      fi;
      call++;
      tile = unit
    };
#ifndef NO_JOIN
    begun[rank] >= call  /* the kernel has ended */
#endif
  od;
  gone[rank]++
}

/* Says farewell by having left; frees the window when all peers have. */
proctype Free(byte rank) {
  byte peer;
  HAS_LEFT(rank);
#ifndef FREE_EARLY
  for (peer : 0 .. RANKS - 1) { HAS_LEFT(peer) }
#endif
  is_freed[rank] = true
}

init {
  byte call, rank, exchanges = 0;
  atomic {
    for (call : 0 .. CALLS - 1) {
      if
      :: two_shot[call] = true
      :: two_shot[call] = false;
#ifndef NO_TURN
        slot[call] = exchanges % 2;
#endif
        exchanges++
      fi;
      if
      :: TILES == 2 && UNITS == 2 -> tiles[call] = 2; units[call] = 2
      :: TILES == 2 -> tiles[call] = 2; units[call] = 1
      :: tiles[call] = 1; units[call] = 1
      fi
    }
    for (rank : 0 .. RANKS - 1) {
      run Unit(rank, 0);
      if
      :: UNITS == 2 -> run Unit(rank, 1)
      :: else -> skip
      fi;
      run Free(rank)
    }
  }
}
