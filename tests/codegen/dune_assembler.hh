#ifndef FORMCOMPILER_TESTS_DUNE_ASSEMBLER_HH
#define FORMCOMPILER_TESTS_DUNE_ASSEMBLER_HH

// The loop of an assembler over the local views of a basis of dune-functions, on an unstructured grid of dune-grid.
// The grid comes from standard input; every dof goes to standard output with its leaf of the space, its position, the
// residual, the Jacobian's action and the product with the assembled Jacobian.

#include <dune/common/fvector.hh>
#include <dune/common/parallel/mpihelper.hh>
#include <dune/functions/functionspacebases/compositebasis.hh>
#include <dune/functions/functionspacebases/lagrangebasis.hh>
#include <dune/functions/functionspacebases/lagrangedgbasis.hh>
#include <dune/functions/functionspacebases/powerbasis.hh>
#include <dune/grid/common/gridfactory.hh>
#include <dune/grid/uggrid.hh>
#include <dune/typetree/traversal.hh>

#include <cstddef>
#include <iomanip>
#include <iostream>
#include <memory>
#include <vector>

namespace assembler {

using Numbers = std::vector<double>;

template <class Entity>
struct CellView
{
  const Entity& entity_;

  const Entity& entity() const
  {
    return entity_;
  }

  auto geometry() const
  {
    return entity_.geometry();
  }
};

struct LocalVector
{
  Numbers values;

  template <class Node>
  double operator()(const Node& node, std::size_t i) const
  {
    return values[node.localIndex(i)];
  }

  template <class Node>
  void accumulate(const Node& node, std::size_t i, double value)
  {
    values[node.localIndex(i)] += value;
  }
};

struct LocalMatrix
{
  std::size_t n_columns;
  Numbers values;

  template <class Test, class Trial>
  void accumulate(const Test& test, std::size_t i, const Trial& trial, std::size_t j, double value)
  {
    values[test.localIndex(i) * n_columns + trial.localIndex(j)] += value;
  }

  /// Returns the product with a local vector.
  Numbers operator*(const LocalVector& x) const
  {
    Numbers result(values.size() / n_columns, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i)
      result[i / n_columns] += values[i] * x.values[i % n_columns];
    return result;
  }
};

/// Function space of the whole grid with the vectors that belong to it.
template <class Basis>
struct Space
{
  const Basis& basis;
  Numbers leaf, x, z;
  std::vector<Numbers> position;

  explicit Space(const Basis& given)
    : basis(given),
      leaf(given.size()),
      x(given.size()),
      z(given.size()),
      position(given.size())
  {
    auto view = basis.localView();
    for (const auto& cell : elements(basis.gridView())) {
      view.bind(cell);
      std::size_t number = 0;
      Dune::TypeTree::forEachLeafNode(view.tree(), [&](const auto& node, const auto&) { read_leaf(view, node, number++); });
    }
  }

  template <class View>
  LocalVector gather(const View& view, const Numbers& from) const
  {
    LocalVector local{Numbers(view.size())};
    for (std::size_t i = 0; i < view.size(); ++i)
      local.values[i] = from[view.index(i)[0]];
    return local;
  }

  template <class View>
  static void scatter(const View& view, const Numbers& local, Numbers& to)
  {
    for (std::size_t i = 0; i < view.size(); ++i)
      to[view.index(i)[0]] += local[i];
  }

private:
  template <class View, class Node>
  void read_leaf(const View& view, const Node& node, std::size_t number)
  {
    const auto geometry = view.element().geometry();
    constexpr int dim = Basis::GridView::dimensionworld;
    std::vector<Numbers> found(node.size(), Numbers(dim));
    for (int d = 0; d < dim; ++d) {
      Numbers values;
      node.finiteElement().localInterpolation().interpolate(
          [&](const auto& local) { return geometry.global(local)[static_cast<std::size_t>(d)]; }, values);
      for (std::size_t i = 0; i < node.size(); ++i)
        found[i][static_cast<std::size_t>(d)] = values[i];
    }
    for (std::size_t i = 0; i < node.size(); ++i) {
      const std::size_t global = view.index(node.localIndex(i))[0];
      leaf[global] = static_cast<double>(number);
      position[global] = found[i];
      double linear = 0.0, square = 0.0;
      for (std::size_t d = 0; d < dim; ++d) {
        linear += static_cast<double>(d + 1) * found[i][d];
        square += found[i][d] * found[i][d];
      }
      x[global] = 0.7 + 0.25 * static_cast<double>(number) + 0.3 * linear - 0.2 * square;
      z[global] = 0.4 - 0.5 * static_cast<double>(number) + 0.6 * square * linear;
    }
  }
};

/// Results of all methods of an operator, added up over the grid.
template <class Basis, class Operator>
struct Assembler
{
  const Space<Basis>& space;
  const Operator& op;
  Numbers residual, applied, product;

  void assemble()
  {
    const std::size_t n = space.basis.size();
    residual = applied = product = Numbers(n, 0.0);
    const auto& grid_view = space.basis.gridView();
    auto inside = space.basis.localView(), outside = space.basis.localView();
    for (const auto& cell : elements(grid_view)) {
      inside.bind(cell);
      visit_cell(inside, cell);
      for (const auto& facet : intersections(grid_view, cell)) {
        if (facet.boundary())
          visit_boundary(inside, facet);
        else if (grid_view.indexSet().index(cell) > grid_view.indexSet().index(facet.outside())) {
          outside.bind(facet.outside());
          visit_skeleton(inside, outside, facet);
        }
      }
    }
  }

private:
  template <class View, class Cell>
  void visit_cell(const View& view, const Cell& cell)
  {
    const auto& node = view.tree();
    const CellView<Cell> eg{cell};
    const LocalVector x = space.gather(view, space.x), z = space.gather(view, space.z);
    LocalVector r{Numbers(view.size())}, y{Numbers(view.size())};
    LocalMatrix mat{view.size(), Numbers(view.size() * view.size())};
    if constexpr (Operator::doLambdaVolume)
      op.lambda_volume(eg, node, r);
    if constexpr (Operator::doAlphaVolume) {
      op.alpha_volume(eg, node, x, node, r);
      op.jacobian_volume(eg, node, x, node, mat);
      if constexpr (Operator::isLinear)
        op.jacobian_apply_volume(eg, node, z, node, y);
      else
        op.jacobian_apply_volume(eg, node, x, z, node, y);
    }
    add(view, r, y, mat * z);
  }

  template <class View, class Facet>
  void visit_boundary(const View& view, const Facet& facet)
  {
    const auto& node = view.tree();
    const LocalVector x = space.gather(view, space.x), z = space.gather(view, space.z);
    LocalVector r{Numbers(view.size())}, y{Numbers(view.size())};
    LocalMatrix mat{view.size(), Numbers(view.size() * view.size())};
    if constexpr (Operator::doLambdaBoundary)
      op.lambda_boundary(facet, node, r);
    if constexpr (Operator::doAlphaBoundary) {
      op.alpha_boundary(facet, node, x, node, r);
      op.jacobian_boundary(facet, node, x, node, mat);
      if constexpr (Operator::isLinear)
        op.jacobian_apply_boundary(facet, node, z, node, y);
      else
        op.jacobian_apply_boundary(facet, node, x, z, node, y);
    }
    add(view, r, y, mat * z);
  }

  template <class View, class Facet>
  void visit_skeleton(const View& s, const View& n, const Facet& facet)
  {
    const auto& node_s = s.tree();
    const auto& node_n = n.tree();
    const LocalVector x_s = space.gather(s, space.x), x_n = space.gather(n, space.x);
    const LocalVector z_s = space.gather(s, space.z), z_n = space.gather(n, space.z);
    LocalVector r_s{Numbers(s.size())}, r_n{Numbers(n.size())}, y_s = r_s, y_n = r_n;
    LocalMatrix ss{s.size(), Numbers(s.size() * s.size())};
    LocalMatrix sn = ss, ns = ss, nn = ss;
    if constexpr (Operator::doLambdaSkeleton)
      op.lambda_skeleton(facet, node_s, node_n, r_s, r_n);
    if constexpr (Operator::doAlphaSkeleton) {
      op.alpha_skeleton(facet, node_s, x_s, node_s, node_n, x_n, node_n, r_s, r_n);
      op.jacobian_skeleton(facet, node_s, x_s, node_s, node_n, x_n, node_n, ss, sn, ns, nn);
      if constexpr (Operator::isLinear)
        op.jacobian_apply_skeleton(facet, node_s, z_s, node_s, node_n, z_n, node_n, y_s, y_n);
      else
        op.jacobian_apply_skeleton(facet, node_s, x_s, z_s, node_s, node_n, x_n, z_n, node_n, y_s, y_n);
    }
    add(s, r_s, y_s, ss * z_s);
    Space<Basis>::scatter(s, sn * z_n, product);
    add(n, r_n, y_n, ns * z_s);
    Space<Basis>::scatter(n, nn * z_n, product);
  }

  template <class View>
  void add(const View& view, const LocalVector& r, const LocalVector& y, const Numbers& jz)
  {
    Space<Basis>::scatter(view, r.values, residual);
    Space<Basis>::scatter(view, y.values, applied);
    Space<Basis>::scatter(view, jz, product);
  }
};

/// Returns the grid that standard input describes: vertices, then cells of DUNE's vertex order.
template <int dim>
auto read_grid(const Dune::GeometryType& type)
{
  Dune::GridFactory<Dune::UGGrid<dim>> factory;
  std::size_t n_vertices = 0, n_cells = 0, n_corners = 0;
  std::cin >> n_vertices;
  for (std::size_t i = 0; i < n_vertices; ++i) {
    Dune::FieldVector<double, dim> vertex;
    for (double& coordinate : vertex)
      std::cin >> coordinate;
    factory.insertVertex(vertex);
  }
  std::cin >> n_cells >> n_corners;
  for (std::size_t i = 0; i < n_cells; ++i) {
    std::vector<unsigned int> corners(n_corners);
    for (unsigned int& corner : corners)
      std::cin >> corner;
    factory.insertElement(type, corners);
  }
  return factory.createGrid();
}

template <class Basis, class Operator>
void run(const Basis& basis, const Operator& op)
{
  const Space<Basis> space(basis);
  Assembler<Basis, Operator> assembler{space, op, {}, {}, {}};
  assembler.assemble();
  std::cout << std::setprecision(17);
  for (std::size_t i = 0; i < basis.size(); ++i) {
    std::cout << space.leaf[i];
    for (double coordinate : space.position[i])
      std::cout << ' ' << coordinate;
    std::cout << ' ' << space.x[i] << ' ' << space.z[i] << ' ' << assembler.residual[i] << ' ' << assembler.applied[i]
              << ' ' << assembler.product[i] << '\n';
  }
}

}  // namespace assembler

#endif
