#ifndef FORMCOMPILER_TESTS_PDELAB_STUB_HH
#define FORMCOMPILER_TESTS_PDELAB_STUB_HH

// The smallest classes with which a local operator can work, and a loop that calls all its methods on one cell, one
// boundary facet or one interior facet. Numbers come from standard input, results go to standard output.

#include <array>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace stub {

using Numbers = std::vector<double>;

/// Reads a count and as many numbers.
inline Numbers read_numbers()
{
  std::size_t n = 0;
  std::cin >> n;
  Numbers numbers(n);
  for (double& number : numbers)
    std::cin >> number;
  return numbers;
}

inline void print(const std::string& name, const Numbers& numbers)
{
  std::cout << name << std::setprecision(17);
  for (double number : numbers)
    std::cout << ' ' << number;
  std::cout << '\n';
}

template <int dim>
struct Geometry
{
  Numbers coordinates;

  int corners() const
  {
    return static_cast<int>(coordinates.size()) / dim;
  }

  std::array<double, dim> corner(int i) const
  {
    std::array<double, dim> result{};
    for (std::size_t d = 0; d < dim; ++d)
      result[d] = coordinates[static_cast<std::size_t>(i) * dim + d];
    return result;
  }
};

template <int dim>
struct Entity
{
  Geometry<dim> geometry_;
  int id = -1;
  std::map<std::string, Numbers> coefficients;

  Geometry<dim> geometry() const
  {
    return geometry_;
  }
};

template <int dim>
struct CellView
{
  Entity<dim> entity_;

  const Entity<dim>& entity() const
  {
    return entity_;
  }

  Geometry<dim> geometry() const
  {
    return entity_.geometry();
  }
};

template <int dim>
struct FacetView
{
  Entity<dim> inside_, outside_;
  int facet_inside = 0, facet_outside = 0, id = -1;

  Entity<dim> inside() const
  {
    return inside_;
  }

  Entity<dim> outside() const
  {
    return outside_;
  }

  int indexInInside() const
  {
    return facet_inside;
  }

  int indexInOutside() const
  {
    return facet_outside;
  }
};

// Local function spaces: leaves know where their dofs stand in the vector of the whole tree.

template <std::size_t n>
struct Leaf
{
  std::size_t offset = 0;
  static constexpr std::size_t n_dofs = n;

  void place(std::size_t first)
  {
    offset = first;
  }

  std::size_t size() const
  {
    return n;
  }

  std::size_t localIndex(std::size_t i) const
  {
    return offset + i;
  }
};

template <class Child, std::size_t n>
struct Power
{
  std::array<Child, n> children;
  static constexpr std::size_t n_dofs = n * Child::n_dofs;

  void place(std::size_t first)
  {
    for (Child& child : children) {
      child.place(first);
      first += Child::n_dofs;
    }
  }

  const Child& child(std::size_t i) const
  {
    return children[i];
  }
};

template <class... Children>
struct Composite
{
  std::tuple<Children...> children;
  static constexpr std::size_t n_dofs = (Children::n_dofs + ...);

  void place(std::size_t first)
  {
    std::apply([&](auto&... child) { ((child.place(first), first += child.n_dofs), ...); }, children);
  }

  template <std::size_t i>
  const auto& child(std::integral_constant<std::size_t, i>) const
  {
    return std::get<i>(children);
  }
};

template <class Space>
Space make_space()
{
  Space space;
  space.place(0);
  return space;
}

// Vectors and matrices: accumulate() takes a weight into account, and nothing else can be done with results.

struct LocalVector
{
  Numbers values;

  template <class Space>
  double operator()(const Space& space, std::size_t i) const
  {
    return values[space.localIndex(i)];
  }
};

constexpr double initial = 7.0;

struct ResidualView
{
  Numbers values;
  double weight;

  ResidualView(std::size_t n, double weight_) : values(n, initial), weight(weight_) {}

  template <class Space>
  void accumulate(const Space& space, std::size_t i, double value)
  {
    values[space.localIndex(i)] += weight * value;
  }
};

struct MatrixView
{
  std::size_t n_columns;
  Numbers values;
  double weight;

  MatrixView(std::size_t rows, std::size_t columns, double weight_)
    : n_columns(columns), values(rows * columns, initial), weight(weight_)
  {}

  template <class Test, class Trial>
  void accumulate(const Test& test, std::size_t i, const Trial& trial, std::size_t j, double value)
  {
    values[test.localIndex(i) * n_columns + trial.localIndex(j)] += weight * value;
  }
};

struct PatternView
{
  std::set<std::pair<std::size_t, std::size_t>> links;

  template <class Test, class Trial>
  void addLink(const Test& test, std::size_t i, const Trial& trial, std::size_t j)
  {
    links.emplace(test.localIndex(i), trial.localIndex(j));
  }

  void print(const std::string& name) const
  {
    stub::print(name, {static_cast<double>(links.size())});
  }
};

template <int dim>
Entity<dim> read_entity(const std::vector<std::string>& coefficients)
{
  Entity<dim> entity;
  std::cin >> entity.id;
  entity.geometry_.coordinates = read_numbers();
  for (const std::string& name : coefficients)
    entity.coefficients[name] = read_numbers();
  return entity;
}

template <class Operator, class EG, class Space, class R, class = void>
struct Diagonal
{
  static void print_if_there_is_one(const Operator&, const EG&, const Space&, const LocalVector&, double) {}
};

template <class Operator, class EG, class Space, class R>
struct Diagonal<Operator, EG, Space, R,
                std::void_t<decltype(std::declval<const Operator&>().diagonal_volume(
                    std::declval<const EG&>(), std::declval<const Space&>(), std::declval<const LocalVector&>(),
                    std::declval<const Space&>(), std::declval<R&>()))>>
{
  static void print_if_there_is_one(const Operator& op, const EG& eg, const Space& lfs, const LocalVector& x, double weight)
  {
    R r(Space::n_dofs, weight);
    op.diagonal_volume(eg, lfs, x, lfs, r);
    print("diagonal", r.values);
  }
};

template <int dim, class Trial, class Test, class Operator>
void run_volume(const Operator& op, const std::vector<std::string>& coefficients)
{
  const Trial lfsu = make_space<Trial>();
  const Test lfsv = make_space<Test>();
  double weight = 1;
  std::cin >> weight;
  const CellView<dim> eg{read_entity<dim>(coefficients)};
  const LocalVector x{read_numbers()}, z{read_numbers()};
  if constexpr (Operator::doAlphaVolume) {
    ResidualView r(Test::n_dofs, weight), y(Test::n_dofs, weight);
    MatrixView mat(Test::n_dofs, Trial::n_dofs, weight);
    op.alpha_volume(eg, lfsu, x, lfsv, r);
    op.jacobian_volume(eg, lfsu, x, lfsv, mat);
    if constexpr (Operator::isLinear)
      op.jacobian_apply_volume(eg, lfsu, z, lfsv, y);
    else
      op.jacobian_apply_volume(eg, lfsu, x, z, lfsv, y);
    print("alpha", r.values);
    print("jacobian", mat.values);
    print("apply", y.values);
    if constexpr (std::is_same_v<Trial, Test>)
      Diagonal<Operator, CellView<dim>, Trial, ResidualView>::print_if_there_is_one(op, eg, lfsu, x, weight);
  }
  if constexpr (Operator::doLambdaVolume) {
    ResidualView r(Test::n_dofs, weight);
    op.lambda_volume(eg, lfsv, r);
    print("lambda", r.values);
  }
  if constexpr (Operator::doPatternVolume) {
    PatternView pattern;
    op.pattern_volume(lfsu, lfsv, pattern);
    pattern.print("pattern");
  }
}

template <int dim, class Trial, class Test, class Operator>
void run_boundary(const Operator& op, const std::vector<std::string>& coefficients)
{
  const Trial lfsu = make_space<Trial>();
  const Test lfsv = make_space<Test>();
  double weight = 1;
  FacetView<dim> ig;
  std::cin >> weight >> ig.id >> ig.facet_inside;
  ig.inside_ = read_entity<dim>(coefficients);
  const LocalVector x{read_numbers()}, z{read_numbers()};
  if constexpr (Operator::doAlphaBoundary) {
    ResidualView r(Test::n_dofs, weight), y(Test::n_dofs, weight);
    MatrixView mat(Test::n_dofs, Trial::n_dofs, weight);
    op.alpha_boundary(ig, lfsu, x, lfsv, r);
    op.jacobian_boundary(ig, lfsu, x, lfsv, mat);
    if constexpr (Operator::isLinear)
      op.jacobian_apply_boundary(ig, lfsu, z, lfsv, y);
    else
      op.jacobian_apply_boundary(ig, lfsu, x, z, lfsv, y);
    print("alpha", r.values);
    print("jacobian", mat.values);
    print("apply", y.values);
  }
  if constexpr (Operator::doLambdaBoundary) {
    ResidualView r(Test::n_dofs, weight);
    op.lambda_boundary(ig, lfsv, r);
    print("lambda", r.values);
  }
}

template <int dim, class Trial, class Test, class Operator>
void run_skeleton(const Operator& op, const std::vector<std::string>& coefficients)
{
  const Trial lfsu = make_space<Trial>();
  const Test lfsv = make_space<Test>();
  double weight = 1;
  FacetView<dim> ig;
  std::cin >> weight >> ig.id >> ig.facet_inside >> ig.facet_outside;
  ig.inside_ = read_entity<dim>(coefficients);
  ig.outside_ = read_entity<dim>(coefficients);
  const LocalVector x_s{read_numbers()}, x_n{read_numbers()}, z_s{read_numbers()}, z_n{read_numbers()};
  if constexpr (Operator::doAlphaSkeleton) {
    ResidualView r_s(Test::n_dofs, weight), r_n(Test::n_dofs, weight);
    ResidualView y_s(Test::n_dofs, weight), y_n(Test::n_dofs, weight);
    MatrixView ss(Test::n_dofs, Trial::n_dofs, weight), sn(ss), ns(ss), nn(ss);
    op.alpha_skeleton(ig, lfsu, x_s, lfsv, lfsu, x_n, lfsv, r_s, r_n);
    op.jacobian_skeleton(ig, lfsu, x_s, lfsv, lfsu, x_n, lfsv, ss, sn, ns, nn);
    if constexpr (Operator::isLinear)
      op.jacobian_apply_skeleton(ig, lfsu, z_s, lfsv, lfsu, z_n, lfsv, y_s, y_n);
    else
      op.jacobian_apply_skeleton(ig, lfsu, x_s, z_s, lfsv, lfsu, x_n, z_n, lfsv, y_s, y_n);
    print("alpha_s", r_s.values);
    print("alpha_n", r_n.values);
    print("ss", ss.values);
    print("sn", sn.values);
    print("ns", ns.values);
    print("nn", nn.values);
    print("apply_s", y_s.values);
    print("apply_n", y_n.values);
  }
  if constexpr (Operator::doLambdaSkeleton) {
    ResidualView r_s(Test::n_dofs, weight), r_n(Test::n_dofs, weight);
    op.lambda_skeleton(ig, lfsv, lfsv, r_s, r_n);
    print("lambda_s", r_s.values);
    print("lambda_n", r_n.values);
  }
  if constexpr (Operator::doPatternSkeleton) {
    PatternView sn, ns;
    op.pattern_skeleton(lfsu, lfsv, lfsu, lfsv, sn, ns);
    sn.print("pattern_sn");
    ns.print("pattern_ns");
  }
}

/// Runs the commands of standard input: volume, boundary or skeleton with their data, or time.
template <int dim, class Trial, class Test, class Operator>
int run(Operator& op, const std::vector<std::string>& coefficients)
{
  std::string command;
  while (std::cin >> command) {
    if (command == "volume")
      run_volume<dim, Trial, Test>(op, coefficients);
    else if (command == "boundary")
      run_boundary<dim, Trial, Test>(op, coefficients);
    else if (command == "skeleton")
      run_skeleton<dim, Trial, Test>(op, coefficients);
    else if (command == "time") {
      double time = 0;
      std::cin >> time;
      op.setTime(time);
    }
    else
      return 1;
    std::cout << "end\n";
  }
  return 0;
}

} // namespace stub

#endif
