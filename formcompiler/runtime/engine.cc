// Assembly loops of the embedded engine. A loop runs a compiled kernel over batches of cells or facets: it gathers
// coordinates and dofs, calls the kernel, and adds the result to a number, a vector or a compressed-row matrix.
// The lanes of a batch are entities with equal facet numbers and permutations. All tables belong to the caller. Built once per machine; the layouts are mirrored in assembly.py.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

extern "C" {

// Adds to `a`, row-major over the arguments' dofs (for two cells: all dofs of the first, then of the second).
// coefficients[k], constants[k]: dofs and values of the k-th; coordinates: axes (side, node, direction);
// facet, permutation: one per side. If a kernel takes several lanes, a, the dofs of each coefficient and the
// coordinates have the lane as their last axis.
using Kernel = void (*)(double* a, const double* const* coefficients, const double* const* constants,
                        const double* coordinates, const int* facet, const unsigned char* permutation);

// Numbers of each cell's dofs (or nodes), axes (cell, dof).
struct Table {
  const int* numbers;
  std::int64_t width;
};

struct Loop {
  Kernel kernel;
  std::int64_t n_lanes;
  std::int64_t n_batches;
  const int* batches;                 // entities of each batch, axes (batch, lane); -1 for lanes without one
  std::int64_t n_sides;
  const int* cells;                   // axes (entity, side)
  const int* facets;                  // axes (entity, side)
  const unsigned char* permutations;  // axes (entity, side)
  const double* points;               // axes (node, direction)
  std::int64_t gdim;
  Table nodes;
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

// What the kernel sees of one entity.
class Gatherer {
 public:
  explicit Gatherer(const Loop& loop)
      : loop_(loop), coordinates_(make_buffer(loop.n_lanes * loop.n_sides * loop.nodes.width * loop.gdim)) {
    for (std::int64_t k = 0; k < loop.n_coefficients; ++k) {
      buffers_.push_back(make_buffer(loop.n_lanes * loop.n_sides * loop.coefficients[k].width));
      coefficients_.push_back(buffers_.back().get());
    }
  }

  // Lanes without an entity see the first one, so that their arithmetic is that of a valid cell.
  void load(const int* entities) {
    for (std::int64_t lane = 0; lane < loop_.n_lanes; ++lane) {
      const std::int64_t entity = entities[lane] < 0 ? entities[0] : entities[lane];
      for (std::int64_t side = 0; side < loop_.n_sides; ++side) {
        const std::int64_t cell = loop_.cells[entity * loop_.n_sides + side];
        load_coordinates(cell, side, lane);
        for (std::int64_t k = 0; k < loop_.n_coefficients; ++k) load_dofs(k, cell, side, lane);
      }
    }
  }

  const double* coordinates() const { return coordinates_.get(); }
  const double* const* coefficients() const { return coefficients_.data(); }

 private:
  void load_coordinates(std::int64_t cell, std::int64_t side, std::int64_t lane) {
    const int* nodes = loop_.nodes.numbers + cell * loop_.nodes.width;
    double* target = coordinates_.get() + side * loop_.nodes.width * loop_.gdim * loop_.n_lanes + lane;
    for (std::int64_t i = 0; i < loop_.nodes.width; ++i)
      for (std::int64_t d = 0; d < loop_.gdim; ++d)
        target[(i * loop_.gdim + d) * loop_.n_lanes] = loop_.points[nodes[i] * loop_.gdim + d];
  }

  void load_dofs(std::int64_t k, std::int64_t cell, std::int64_t side, std::int64_t lane) {
    const Table& table = loop_.coefficients[k];
    const int* dofs = table.numbers + cell * table.width;
    const double* vector = loop_.vectors[k];
    double* target = buffers_[static_cast<std::size_t>(k)].get() + side * table.width * loop_.n_lanes + lane;
    for (std::int64_t i = 0; i < table.width; ++i) target[i * loop_.n_lanes] = vector[dofs[i]];
  }

  const Loop& loop_;
  Buffer coordinates_;
  std::vector<Buffer> buffers_;
  std::vector<const double*> coefficients_;
};

// Dofs of one argument on the cells of an entity.
void collect_dofs(const Loop& loop, std::int64_t entity, const Table& table, std::vector<int>& dofs) {
  dofs.clear();
  for (std::int64_t side = 0; side < loop.n_sides; ++side) {
    const int* first = table.numbers + loop.cells[entity * loop.n_sides + side] * table.width;
    dofs.insert(dofs.end(), first, first + table.width);
  }
}

// Calls scatter(entity, a) for each entity; entry i of the kernel's result is a[i * n_lanes].
template <class Scatter>
void run(const Loop& loop, Scatter scatter) {
  std::int64_t size = 1;
  for (std::int64_t k = 0; k < loop.rank; ++k) size *= loop.n_sides * loop.arguments[k].width;
  const Buffer a = make_buffer(size * loop.n_lanes);
  Gatherer gatherer(loop);
  for (std::int64_t batch = 0; batch < loop.n_batches; ++batch) {
    const int* entities = loop.batches + batch * loop.n_lanes;
    gatherer.load(entities);
    std::fill_n(a.get(), size * loop.n_lanes, 0.0);
    const std::int64_t first = entities[0] * loop.n_sides;
    loop.kernel(a.get(), gatherer.coefficients(), loop.constants, gatherer.coordinates(), loop.facets + first,
                loop.permutations + first);
    for (std::int64_t lane = 0; lane < loop.n_lanes; ++lane)
      if (entities[lane] >= 0) scatter(entities[lane], a.get() + lane);
  }
}

}  // namespace

extern "C" {

// Adds the integral of a form without arguments to *result.
void fc_assemble_number(const Loop* loop, double* result) {
  run(*loop, [&](std::int64_t, const double* a) { *result += a[0]; });
}

// Adds to a vector of the test function's dofs.
void fc_assemble_vector(const Loop* loop, double* vector) {
  std::vector<int> rows;
  run(*loop, [&](std::int64_t entity, const double* a) {
    collect_dofs(*loop, entity, loop->arguments[0], rows);
    const auto n_lanes = static_cast<std::size_t>(loop->n_lanes);
    for (std::size_t i = 0; i < rows.size(); ++i) vector[rows[i]] += a[i * n_lanes];
  });
}

// Adds to the values of a matrix in compressed rows with sorted columns; leaves out constrained rows and columns.
// Returns the number of entries that have no place in the pattern.
std::int64_t fc_assemble_matrix(const Loop* loop, const int* row_starts, const int* columns, double* values,
                                const unsigned char* constrained_rows, const unsigned char* constrained_columns) {
  std::vector<int> rows;
  std::vector<int> cols;
  std::int64_t n_lost = 0;
  run(*loop, [&](std::int64_t entity, const double* a) {
    collect_dofs(*loop, entity, loop->arguments[0], rows);
    collect_dofs(*loop, entity, loop->arguments[1], cols);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (constrained_rows[rows[i]] != 0) continue;
      const int* begin = columns + row_starts[rows[i]];
      const int* end = columns + row_starts[rows[i] + 1];
      for (std::size_t j = 0; j < cols.size(); ++j) {
        if (constrained_columns[cols[j]] != 0) continue;
        const int* place = std::lower_bound(begin, end, cols[j]);
        if (place == end || *place != cols[j])
          ++n_lost;
        else
          values[place - columns] += a[(i * cols.size() + j) * static_cast<std::size_t>(loop->n_lanes)];
      }
    }
  });
  return n_lost;
}

}  // extern "C"
