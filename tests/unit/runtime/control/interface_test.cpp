#include "runtime/control/interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../file/support.h"
#include "runtime/error.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

TEST(AddressOfInterface, NamesTheInterfacesThereAreWhenAskedForAnother) {
  try {
    address_of_interface("ether9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("ether9"), testing::HasSubstr("lo")));
  }
}

TEST(HostIdentity, IsOneForAllProcessesOfAMachineAndNetwork) {
  EXPECT_EQ(host_identity(), host_identity());
}

TEST(HostIdentity, TellsMachinesAndNetworksApart) {
  const test::TemporaryFolder folder;
  const auto identity = [&](const std::string& boot, const std::string& space) {
    const fs::path root = folder.path() / (boot + space);
    fs::create_directories(root / "proc/sys/kernel/random");
    fs::create_directories(root / "proc/self/ns");
    test::write_text(root / "proc/sys/kernel/random/boot_id", boot + "\n");
    fs::create_symlink(space, root / "proc/self/ns/net");
    return host_identity(root);
  };
  EXPECT_EQ(identity("a", "net:[1]"), "a/net:[1]");
  EXPECT_EQ(identity("a", "net:[2]"), "a/net:[2]");
  EXPECT_EQ(identity("b", "net:[1]"), "b/net:[1]");
}

TEST(HostIdentity, EqualsNoneWhereHalfOfItCannotBeRead) {
  const test::TemporaryFolder folder;
  const fs::path boot_only = folder.path() / "boot", space_only = folder.path() / "space";
  fs::create_directories(boot_only / "proc/sys/kernel/random");
  test::write_text(boot_only / "proc/sys/kernel/random/boot_id", "a\n");
  fs::create_directories(space_only / "proc/self/ns");
  fs::create_symlink("net:[1]", space_only / "proc/self/ns/net");
  for (const fs::path& root : {boot_only, space_only, folder.path() / "nothing"})
    EXPECT_NE(host_identity(root), host_identity(root)) << root;
}

}  // namespace
}  // namespace troupe
