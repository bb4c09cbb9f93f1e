// Assembly loops of the embedded engine. A loop runs a compiled kernel over batches of cells or facets: it gathers
// coordinates and dofs, calls the kernel, and adds the result to a number, a vector or a compressed-row matrix.
// The lanes of a batch are entities with equal facet numbers and permutations. All tables belong to the caller.
// Built once per machine; the layouts are mirrored in assembly.py.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" {

// Adds to `a`, row-major over the arguments' dofs (for two cells: all dofs of the first, then of the second).
// coefficients[k], constants[k]: dofs and values of the k-th; coordinates: axes (side, node, direction);
// facet, permutation: one per side; n_points, points, weights: of kernels that get their points from the caller, axes
// (point, direction) and (point,). If a kernel takes several lanes, a, the dofs of each coefficient and the
// coordinates have the lane as their last axis.
using Kernel = void (*)(double* a, const double* const* coefficients, const double* const* constants,
                        const double* coordinates, const int* facet, const unsigned char* permutation, int n_points,
                        const double* points, const double* weights);

// Numbers of dofs (or nodes), axes (batch, entry, lane); entries are those of the first side, then of the second.
// Lanes without an entity repeat the first one, so that their arithmetic is that of a valid cell.
struct Table {
  const int* numbers;
  std::int64_t width;
};

// An entry of a kernel's array: in each lane it has the number start + offset, with the start of the group there.
// A block is as many consecutive entries as there are lanes, with consecutive numbers.
struct Piece {
  int group;
  int entry;
  int offset;
};

struct Pieces {
  const Piece* begin;
  std::int64_t n;
};

// The numbers of a table, compressed: a start for each group of entries that move together from cell to cell.
//
// On a structured mesh the lanes of most batches lie in one or two rows of cells, and from one cell of a row to the next
// all numbers grow by one. Then the entries of one row are consecutive numbers. Two rows are read and written as if
// each had all lanes, which the tables allow only where that stays within the vector.
struct Indices {
  const int* starts;      // axes (batch, group, lane)
  const int* row_starts;  // axes (batch, row, group): the starts of the first lane of each row
  const int* splits;      // of each batch: the first lane of the second row, W if there is one row only, 0 if no rows
  std::int64_t n_groups;
  std::int64_t width;  // entries of the kernel's array
  // Of rows: all entries, one at a time.
  Pieces entries;
  Pieces own_entries;  // of a target: nobody has added to them before, so that they need not be zero
  // Of other batches: the same entries.
  Pieces blocks;
  Pieces singles;
  Pieces own_blocks;  // may overlap
  Pieces own_singles;
};

struct Loop {
  Kernel kernel;
  std::int64_t assigns;  // whether the kernel assigns to all of `a` instead of adding
  std::int64_t n_lanes;
  std::int64_t n_batches;
  const int* counts;  // lanes of each batch that hold an entity: the first ones
  std::int64_t n_sides;
  const int* facets;                  // axes (batch, side)
  const unsigned char* permutations;  // axes (batch, side)
  const double* nodes;                // axes (node, direction)
  Indices coordinates;                   // those that the kernel reads
  std::int64_t n_coefficients;
  const double* const* vectors;  // dofs of each coefficient on the whole mesh
  const Indices* coefficients;
  const double* const* constants;
  std::int64_t rank;
  Indices target;          // of a linear form
  const Table* arguments;  // of a bilinear form
  // Of kernels that get their points from the caller, one entity in each batch; null for others.
  const int* n_points;                // of each batch
  const std::int64_t* first_points;   // number of the first point of each batch
  std::int64_t n_directions;
  const double* points;   // axes (point, direction)
  const double* weights;  // axes (point,)
};

// Numbers from begin to end.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// Batches of one loop that come one after the other.
struct Visit {
  int loop;
  int begin;
  int end;
};

}  // extern "C"

namespace {

struct Free {
  void operator()(double* pointer) const { std::free(pointer); }
};

// Zeros, aligned to cache lines so that kernels may use aligned vector loads.
using Buffer = std::unique_ptr<double[], Free>;

Buffer make_buffer(std::int64_t size) {
  constexpr std::size_t line = 64;
  const std::size_t bytes = (static_cast<std::size_t>(size) * sizeof(double) / line + 1) * line;
  auto* pointer = static_cast<double*>(std::aligned_alloc(line, bytes));
  if (pointer == nullptr) throw std::bad_alloc();
  std::fill_n(pointer, bytes / sizeof(double), 0.0);
  return Buffer(pointer);
}

// The numbers of one batch.
template <int W>
const int* row(const Table& table, std::int64_t batch) {
  return table.numbers + batch * table.width * W;
}

// W consecutive entries of a kernel's array and as many consecutive numbers of each of W lanes: axes (entry, lane) in
// the one, (lane, number) in the other. `at` gives the address of a lane's numbers.
template <int W>
struct Block {
  template <class At>
  static void read(const At& at, double* a) {
    for (int lane = 0; lane < W; ++lane)
      for (int i = 0; i < W; ++i) a[i * W + lane] = at(lane)[i];
  }
  template <bool is_own, class At>
  static void write(const double* a, const At& at) {
    for (int lane = 0; lane < W; ++lane)
      for (int i = 0; i < W; ++i) at(lane)[i] = (is_own ? 0.0 : at(lane)[i]) + a[i * W + lane];
  }
};

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
// The same in vector registers. Numbers move in halves of registers, which the load unit puts together: that saves one
// of three rounds of exchanges (halves, neighbours, pairs) and the loads that cross the border of a cache line.
template <>
struct Block<8> {
  using Row = double __attribute__((vector_size(64)));
  using RowInMemory = double __attribute__((vector_size(64), aligned(8), may_alias));
  using Half = double __attribute__((vector_size(32), aligned(8), may_alias));

  template <class At>
  static void read(const At& at, double* a) {
    for (int part = 0; part < 2; ++part) {
      Row s[4];
      for (int lane = 0; lane < 4; ++lane) s[lane] = load(at(lane) + 4 * part, at(lane + 4) + 4 * part);
      turn(s);
      for (int i = 0; i < 4; ++i) *reinterpret_cast<RowInMemory*>(a + (4 * part + i) * 8) = s[i];
    }
  }
  template <bool is_own, class At>
  static void write(const double* a, const At& at) {
    for (int part = 0; part < 2; ++part) {
      Row s[4];
      for (int i = 0; i < 4; ++i) s[i] = *reinterpret_cast<const RowInMemory*>(a + (4 * part + i) * 8);
      turn(s);
      for (int lane = 0; lane < 4; ++lane) {
        double* low = at(lane) + 4 * part;
        double* high = at(lane + 4) + 4 * part;
        // One after the other: both lanes may have the same numbers.
        put<is_own>(__builtin_shufflevector(s[lane], s[lane], 0, 1, 2, 3), low);
        put<is_own>(__builtin_shufflevector(s[lane], s[lane], 4, 5, 6, 7), high);
      }
    }
  }

 private:
  static Row load(const double* low, const double* high) {
    const Half first = *reinterpret_cast<const Half*>(low);
    const Half second = *reinterpret_cast<const Half*>(high);
    return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
  }
  template <bool is_own>
  static void put(const Half& numbers, double* target) {
    auto* half = reinterpret_cast<Half*>(target);
    *half = is_own ? numbers : *half + numbers;
  }
  // Transposes four rows within each half.
  static void turn(Row (&s)[4]) {
    Row t[4];
    for (int i = 0; i < 4; i += 2) {
      t[i] = __builtin_shufflevector(s[i], s[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
      t[i + 1] = __builtin_shufflevector(s[i], s[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 2; ++i) {
      s[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      s[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
};
#endif
#endif

template <class Function>
void for_each(const Pieces& pieces, Function function) {
  for (std::int64_t n = 0; n < pieces.n; ++n) function(pieces.begin[n]);
}

// Numbers of W lanes that are in one or two rows of cells.
template <int W>
class Rows {
 public:
  Rows(const Indices& table, std::int64_t batch)
      : split_(table.splits[batch]),
        first_(table.row_starts + batch * table.n_groups * 2),
        second_(first_ + table.n_groups) {
    long long is_first[W];
    for (int lane = 0; lane < W; ++lane) is_first[lane] = lane < split_ ? -1 : 0;
    std::memcpy(&is_first_, is_first, sizeof is_first);
  }

  void read(const Pieces& pieces, const double* vector, double* __restrict__ a) const {
    if (split_ == W)
      for_each_group(pieces, vector, [&](const Piece& piece, const double* first, const double*) {
        at(a + piece.entry * W) = at(first + piece.offset);
      });
    else
      for_each_group(pieces, vector, [&](const Piece& piece, const double* first, const double* second) {
        at(a + piece.entry * W) = is_first_ ? at(first + piece.offset) : at(second + piece.offset);
      });
  }

  template <bool is_own>
  void write(const Pieces& pieces, const double* __restrict__ a, double* vector) const {
    if (split_ == W)
      for_each_group(pieces, vector, [&](const Piece& piece, double* first, double*) {
        Lanes& target = at(first + piece.offset);
        target = is_own ? at(a + piece.entry * W) : target + at(a + piece.entry * W);
      });
    else
      for_each_group(pieces, vector, [&](const Piece& piece, double* first, double* second) {
        // One after the other: they may overlap.
        const Lanes& value = at(a + piece.entry * W);
        Lanes& low = at(first + piece.offset);
        low = is_first_ ? (is_own ? value : low + value) : low;
        Lanes& high = at(second + piece.offset);
        high = is_first_ ? high : (is_own ? value : high + value);
      });
  }

 private:
  typedef double Lanes __attribute__((vector_size(8 * W), aligned(8), may_alias));
  typedef long long Mask __attribute__((vector_size(8 * W)));

  static Lanes& at(double* numbers) { return *reinterpret_cast<Lanes*>(numbers); }
  static const Lanes& at(const double* numbers) { return *reinterpret_cast<const Lanes*>(numbers); }

  // Calls function with each piece and the addresses from which its offset counts if all lanes were in the first row,
  // and if all were in the second.
  template <class Number, class Function>
  void for_each_group(const Pieces& pieces, Number* vector, Function function) const {
    const Piece* piece = pieces.begin;
    const Piece* const end = piece + pieces.n;
    while (piece != end) {
      const int group = piece->group;
      Number* const first = vector + first_[group];
      Number* const second = vector + (second_[group] - split_);
      do function(*piece, first, second);
      while (++piece != end && piece->group == group);
    }
  }

  int split_;
  const int* first_;
  const int* second_;
  Mask is_first_;
};

// Reads the entries of one batch; no pieces are own.
template <int W>
void gather(const Indices& table, std::int64_t batch, const double* vector, double* __restrict__ a) {
  if (table.splits[batch] != 0) return Rows<W>(table, batch).read(table.entries, vector, a);
  const int* __restrict__ starts = table.starts + batch * table.n_groups * W;
  for_each(table.blocks, [&](const Piece& piece) {
    const int* start = starts + piece.group * W;
    const double* source = vector + piece.offset;
    Block<W>::read([&](int lane) { return source + start[lane]; }, a + piece.entry * W);
  });
  for_each(table.singles, [&](const Piece& piece) {
    const int* start = starts + piece.group * W;
    const double* source = vector + piece.offset;
    for (int lane = 0; lane < W; ++lane) a[piece.entry * W + lane] = source[start[lane]];
  });
}

// Fetches numbers that a batch of one row is the first to meet, while a kernel runs.
// Inlined because GCC 12 takes a function that does nothing else for one without effects, and leaves its calls out.
template <int W>
[[gnu::always_inline]] inline void fetch_own(const Indices& table, std::int64_t batch, const double* vector) {
  if (table.splits[batch] != W) return;
  const int* starts = table.row_starts + batch * table.n_groups * 2;
  for_each(table.own_entries, [&](const Piece& piece) __attribute__((always_inline)) {
    __builtin_prefetch(vector + starts[piece.group] + piece.offset + W - 1, 1);
  });
}

// Adds the entries of a full batch to a vector, or writes them if they are own: those first, because other lanes may
// add to the same numbers.
template <int W>
void scatter(const Indices& table, std::int64_t batch, const double* __restrict__ a, double* vector) {
  if (table.splits[batch] != 0) {
    const Rows<W> rows(table, batch);
    rows.template write<true>(table.own_entries, a, vector);
    rows.template write<false>(table.entries, a, vector);
    return;
  }
  const int* __restrict__ starts = table.starts + batch * table.n_groups * W;
  const auto write = [&](const Piece& piece, auto is_own) {
    const int* start = starts + piece.group * W;
    double* target = vector + piece.offset;
    Block<W>::template write<decltype(is_own)::value>(a + piece.entry * W, [&](int lane) { return target + start[lane]; });
  };
  for_each(table.own_blocks, [&](const Piece& piece) { write(piece, std::true_type()); });
  for_each(table.own_singles, [&](const Piece& piece) {
    const int* start = starts + piece.group * W;
    double* target = vector + piece.offset;
    for (int lane = 0; lane < W; ++lane) target[start[lane]] = a[piece.entry * W + lane];
  });
  for_each(table.blocks, [&](const Piece& piece) { write(piece, std::false_type()); });
  for_each(table.singles, [&](const Piece& piece) {
    const int* start = starts + piece.group * W;
    double* target = vector + piece.offset;
    for (int lane = 0; lane < W; ++lane) target[start[lane]] += a[piece.entry * W + lane];
  });
}

// The same for the first lanes only.
template <int W>
void scatter_lanes(const Indices& table, std::int64_t batch, int count, const double* a, double* vector) {
  const auto put = [&](const Piece& piece, int size, bool is_own) {
    for (int lane = 0; lane < count; ++lane) {
      double* target = vector + table.starts[(batch * table.n_groups + piece.group) * W + lane] + piece.offset;
      for (int i = 0; i < size; ++i) target[i] = (is_own ? 0.0 : target[i]) + a[(piece.entry + i) * W + lane];
    }
  };
  for_each(table.own_blocks, [&](const Piece& piece) { put(piece, W, true); });
  for_each(table.own_singles, [&](const Piece& piece) { put(piece, 1, true); });
  for_each(table.blocks, [&](const Piece& piece) { put(piece, W, false); });
  for_each(table.singles, [&](const Piece& piece) { put(piece, 1, false); });
}

// What the kernel sees of one batch.
template <int W>
class Gatherer {
 public:
  explicit Gatherer(const Loop& loop) : loop_(loop), coordinates_(make_buffer(W * loop.coordinates.width)) {
    for (std::int64_t k = 0; k < loop.n_coefficients; ++k) {
      buffers_.push_back(make_buffer(W * loop.coefficients[k].width));
      coefficients_.push_back(buffers_.back().get());
    }
  }

  void load(std::int64_t batch) {
    gather<W>(loop_.coordinates, batch, loop_.nodes, coordinates_.get());
    for (std::size_t k = 0; k < buffers_.size(); ++k)
      gather<W>(loop_.coefficients[k], batch, loop_.vectors[k], buffers_[k].get());
  }

  const double* coordinates() const { return coordinates_.get(); }
  const double* const* coefficients() const { return coefficients_.data(); }

 private:
  const Loop& loop_;
  Buffer coordinates_;
  std::vector<Buffer> buffers_;
  std::vector<const double*> coefficients_;
};

// Runs the kernel of a loop over some of its batches.
template <int W>
class Runner {
 public:
  Runner(const Loop& loop, std::int64_t size)
      : loop_(loop), size_(size), a_(make_buffer(size * W)), gatherer_(loop) {}

  // Calls fetch(batch) and scatter(batch, a) for each batch; entry i of lane l is a[i * W + l].
  template <class Fetch, class Scatter>
  void run(std::int64_t begin, std::int64_t end, Fetch fetch, Scatter scatter) {
    for (std::int64_t batch = begin; batch < end; ++batch) {
      gatherer_.load(batch);
      fetch(batch);
      if (loop_.assigns == 0) std::fill_n(a_.get(), size_ * W, 0.0);
      const std::int64_t first = batch * loop_.n_sides;
      const bool has_points = loop_.n_points != nullptr;
      const std::int64_t point = has_points ? loop_.first_points[batch] : 0;
      loop_.kernel(a_.get(), gatherer_.coefficients(), loop_.constants, gatherer_.coordinates(), loop_.facets + first,
                   loop_.permutations + first, has_points ? loop_.n_points[batch] : 0,
                   has_points ? loop_.points + point * loop_.n_directions : nullptr,
                   has_points ? loop_.weights + point : nullptr);
      scatter(batch, a_.get());
    }
  }

 private:
  const Loop& loop_;
  std::int64_t size_;
  Buffer a_;
  Gatherer<W> gatherer_;
};

// For results that are not fetched ahead.
void fetch_nothing(std::int64_t /*batch*/) {}

template <int W>
void add_number(const Loop& loop, double* result) {
  Runner<W>(loop, 1).run(0, loop.n_batches, fetch_nothing, [&](std::int64_t batch, const double* a) {
    for (int lane = 0; lane < loop.counts[batch]; ++lane) *result += a[lane];
  });
}

// Adds the batches of one loop to a vector.
class Adder {
 public:
  virtual ~Adder() = default;
  virtual void add(std::int64_t begin, std::int64_t end, double* vector) = 0;
};

template <int W>
class LoopAdder : public Adder {
 public:
  explicit LoopAdder(const Loop& loop) : loop_(loop), runner_(loop, loop.target.width) {}

  void add(std::int64_t begin, std::int64_t end, double* vector) override {
    // Results of this batch; what the next one reads, where it is numbered like the result.
    const auto fetch = [&](std::int64_t batch) {
      fetch_own<W>(loop_.target, batch, vector);
      for (std::int64_t k = 0; k < loop_.n_coefficients && batch + 1 < end; ++k)
        if (loop_.coefficients[k].starts == loop_.target.starts) fetch_own<W>(loop_.target, batch + 1, loop_.vectors[k]);
    };
    runner_.run(begin, end, fetch, [&](std::int64_t batch, const double* a) {
      if (loop_.counts[batch] == W)
        scatter<W>(loop_.target, batch, a, vector);
      else
        scatter_lanes<W>(loop_.target, batch, loop_.counts[batch], a, vector);
    });
  }

 private:
  const Loop& loop_;
  Runner<W> runner_;
};

// A matrix in compressed rows with sorted columns.
struct Matrix {
  const int* row_starts;
  const int* columns;
  double* values;
  const unsigned char* constrained_rows;
  const unsigned char* constrained_columns;
};

template <int W>
std::int64_t add_matrix(const Loop& loop, const Matrix& matrix) {
  const Table& tests = loop.arguments[0];
  const Table& trials = loop.arguments[1];
  std::int64_t n_lost = 0;
  const auto add = [&](std::int64_t batch, const double* a) {
    const int* rows = row<W>(tests, batch);
    const int* columns = row<W>(trials, batch);
    for (int lane = 0; lane < loop.counts[batch]; ++lane)
      for (std::int64_t i = 0; i < tests.width; ++i) {
        const int r = rows[i * W + lane];
        if (matrix.constrained_rows[r] != 0) continue;
        const int* begin = matrix.columns + matrix.row_starts[r];
        const int* end = matrix.columns + matrix.row_starts[r + 1];
        for (std::int64_t j = 0; j < trials.width; ++j) {
          const int c = columns[j * W + lane];
          if (matrix.constrained_columns[c] != 0) continue;
          const int* place = std::lower_bound(begin, end, c);
          if (place == end || *place != c)
            ++n_lost;
          else
            matrix.values[place - matrix.columns] += a[(i * trials.width + j) * W + lane];
        }
      }
  };
  Runner<W>(loop, tests.width * trials.width).run(0, loop.n_batches, fetch_nothing, add);
  return n_lost;
}

// Calls function with the number of lanes as a type; returns -1 if there is no loop for it.
template <class Function>
std::int64_t with_lanes(std::int64_t n_lanes, Function function) {
  switch (n_lanes) {
    case 1: return function(std::integral_constant<int, 1>());
    case 2: return function(std::integral_constant<int, 2>());
    case 4: return function(std::integral_constant<int, 4>());
    case 8: return function(std::integral_constant<int, 8>());
    case 16: return function(std::integral_constant<int, 16>());
    default: return -1;
  }
}

}  // namespace

extern "C" {

// Adds the integral of a form without arguments to *result.
std::int64_t fc_assemble_number(const Loop* loop, double* result) {
  return with_lanes(loop->n_lanes, [&](auto w) -> std::int64_t {
    add_number<decltype(w)::value>(*loop, result);
    return 0;
  });
}

// Writes a vector of the test function's dofs: each visit is to some batches of a loop. Zeros are what no loop owns.
std::int64_t fc_assemble_vector(const Loop* const* loops, std::int64_t n_loops, const Visit* visits,
                                std::int64_t n_visits, const Range* zeros, std::int64_t n_zeros, double* vector) {
  for (const Range* range = zeros; range != zeros + n_zeros; ++range)
    std::fill(vector + range->begin, vector + range->end, 0.0);
  std::vector<std::unique_ptr<Adder>> adders;
  for (std::int64_t n = 0; n < n_loops; ++n) {
    const Loop& loop = *loops[n];
    const std::int64_t status = with_lanes(loop.n_lanes, [&](auto w) -> std::int64_t {
      adders.push_back(std::make_unique<LoopAdder<decltype(w)::value>>(loop));
      return 0;
    });
    if (status < 0) return status;
  }
  for (const Visit* visit = visits; visit != visits + n_visits; ++visit)
    adders[static_cast<std::size_t>(visit->loop)]->add(visit->begin, visit->end, vector);
  return 0;
}

// Adds to the values of a matrix; leaves out constrained rows and columns.
// Returns the number of entries that have no place in the pattern.
std::int64_t fc_assemble_matrix(const Loop* loop, const int* row_starts, const int* columns, double* values,
                                const unsigned char* constrained_rows, const unsigned char* constrained_columns) {
  const Matrix matrix{row_starts, columns, values, constrained_rows, constrained_columns};
  return with_lanes(loop->n_lanes, [&](auto w) { return add_matrix<decltype(w)::value>(*loop, matrix); });
}

}  // extern "C"
