#include "lci/runtime/introduction.hpp"

#include "lci/errors.hpp"

namespace lci::runtime {

std::string introduce(std::uint32_t version, std::string_view network, std::string_view address) {
  return std::to_string(version) + " " + std::string(network) + " " + std::string(address);
}

std::string address_in(std::string_view said, int rank, std::uint32_t version,
                       std::string_view network) {
  const std::string expected = introduce(version, network, "");
  if (said.starts_with(expected)) return std::string(said.substr(expected.size()));
  const std::size_t end = said.find(' ', said.find(' ') + 1);
  throw backend_error("rank " + std::to_string(rank) + " has opened \"" +
                      std::string(said.substr(0, end)) + "\" and this rank \"" +
                      introduce(version, network, "").substr(0, expected.size() - 1) +
                      "\" (version of the protocol, network): all ranks of a job need the same "
                      "version of lci and the same backend (LCI_ATTR_BACKEND)");
}

}  // namespace lci::runtime
