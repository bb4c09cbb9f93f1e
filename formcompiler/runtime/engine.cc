// Assembly loops of the embedded engine. A loop runs a compiled kernel over batches of cells or facets: it gathers
// coordinates and dofs, calls the kernel, and adds the result to a number, a vector or a compressed-row matrix.
// The lanes of a batch are entities with equal facet numbers and permutations. All tables belong to the caller.
// Built once per machine; the layouts are mirrored in assembly.py.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

extern "C" {

// Adds to `a`, row-major over the arguments' dofs (for two cells: all dofs of the first, then of the second).
// coefficients[k], constants[k]: dofs and values of the k-th; coordinates: axes (side, node, direction);
// facet, permutation: one per side. If a kernel takes several lanes, a, the dofs of each coefficient and the
// coordinates have the lane as their last axis.
using Kernel = void (*)(double* a, const double* const* coefficients, const double* const* constants,
                        const double* coordinates, const int* facet, const unsigned char* permutation);

// Numbers of dofs (or nodes), axes (batch, entry, lane); entries are those of the first side, then of the second.
// Lanes without an entity repeat the first one, so that their arithmetic is that of a valid cell.
struct Table {
  const int* numbers;
  std::int64_t width;
};

struct Loop {
  Kernel kernel;
  std::int64_t n_lanes;
  std::int64_t n_batches;
  const int* counts;                  // lanes of each batch that hold an entity: the first ones
  std::int64_t n_sides;
  const int* facets;                  // axes (batch, side)
  const unsigned char* permutations;  // axes (batch, side)
  const double* points;               // axes (node, direction)
  std::int64_t gdim;
  Table nodes;
  std::int64_t n_entries;  // coordinates that the kernel reads
  const int* entries;      // their flat numbers, axes (side, node, direction)
  std::int64_t n_coefficients;
  const double* const* vectors;  // dofs of each coefficient on the whole mesh
  const Table* coefficients;
  const double* const* constants;
  std::int64_t rank;
  const Table* arguments;
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

// What the kernel sees of one batch.
template <int W>
class Gatherer {
 public:
  explicit Gatherer(const Loop& loop) : loop_(loop), coordinates_(make_buffer(W * loop.nodes.width * loop.gdim)) {
    for (std::int64_t k = 0; k < loop.n_coefficients; ++k) {
      buffers_.push_back(make_buffer(W * loop.coefficients[k].width));
      coefficients_.push_back(buffers_.back().get());
    }
  }

  void load(std::int64_t batch) {
    load_coordinates(row<W>(loop_.nodes, batch));
    for (std::int64_t k = 0; k < loop_.n_coefficients; ++k) {
      const Table& table = loop_.coefficients[k];
      const int* __restrict__ numbers = row<W>(table, batch);
      const double* vector = loop_.vectors[k];
      double* __restrict__ target = buffers_[static_cast<std::size_t>(k)].get();
      for (std::int64_t i = 0; i < table.width; ++i)
        for (int lane = 0; lane < W; ++lane) target[i * W + lane] = vector[numbers[i * W + lane]];
    }
  }

  const double* coordinates() const { return coordinates_.get(); }
  const double* const* coefficients() const { return coefficients_.data(); }

 private:
  void load_coordinates(const int* __restrict__ numbers) {
    double* __restrict__ target = coordinates_.get();
    const std::int64_t gdim = loop_.gdim;
    for (std::int64_t n = 0; n < loop_.n_entries; ++n) {
      const std::int64_t entry = loop_.entries[n];
      const std::int64_t node = entry / gdim;
      const std::int64_t d = entry % gdim;
      for (int lane = 0; lane < W; ++lane)
        target[entry * W + lane] = loop_.points[numbers[node * W + lane] * gdim + d];
    }
  }

  const Loop& loop_;
  Buffer coordinates_;
  std::vector<Buffer> buffers_;
  std::vector<const double*> coefficients_;
};

// Calls scatter(batch, a) for each batch; entry i of lane l is a[i * W + l].
template <int W, class Scatter>
void run(const Loop& loop, Scatter scatter) {
  std::int64_t size = 1;
  for (std::int64_t k = 0; k < loop.rank; ++k) size *= loop.arguments[k].width;
  const Buffer a = make_buffer(size * W);
  Gatherer<W> gatherer(loop);
  for (std::int64_t batch = 0; batch < loop.n_batches; ++batch) {
    gatherer.load(batch);
    std::fill_n(a.get(), size * W, 0.0);
    const std::int64_t first = batch * loop.n_sides;
    loop.kernel(a.get(), gatherer.coefficients(), loop.constants, gatherer.coordinates(), loop.facets + first,
                loop.permutations + first);
    scatter(batch, a.get());
  }
}

template <int W>
void add_number(const Loop& loop, double* result) {
  run<W>(loop, [&](std::int64_t batch, const double* a) {
    for (int lane = 0; lane < loop.counts[batch]; ++lane) *result += a[lane];
  });
}

template <int W>
void add_vector(const Loop& loop, double* vector) {
  const Table& table = loop.arguments[0];
  run<W>(loop, [&](std::int64_t batch, const double* a) {
    const int* numbers = row<W>(table, batch);
    const int count = loop.counts[batch];
    if (count == W) {
      for (std::int64_t i = 0; i < table.width; ++i)
        for (int lane = 0; lane < W; ++lane) vector[numbers[i * W + lane]] += a[i * W + lane];
    } else {
      for (std::int64_t i = 0; i < table.width; ++i)
        for (int lane = 0; lane < count; ++lane) vector[numbers[i * W + lane]] += a[i * W + lane];
    }
  });
}

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
  run<W>(loop, [&](std::int64_t batch, const double* a) {
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
  });
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

// Adds to a vector of the test function's dofs.
std::int64_t fc_assemble_vector(const Loop* loop, double* vector) {
  return with_lanes(loop->n_lanes, [&](auto w) -> std::int64_t {
    add_vector<decltype(w)::value>(*loop, vector);
    return 0;
  });
}

// Adds to the values of a matrix; leaves out constrained rows and columns.
// Returns the number of entries that have no place in the pattern.
std::int64_t fc_assemble_matrix(const Loop* loop, const int* row_starts, const int* columns, double* values,
                                const unsigned char* constrained_rows, const unsigned char* constrained_columns) {
  const Matrix matrix{row_starts, columns, values, constrained_rows, constrained_columns};
  return with_lanes(loop->n_lanes, [&](auto w) { return add_matrix<decltype(w)::value>(*loop, matrix); });
}

}  // extern "C"
