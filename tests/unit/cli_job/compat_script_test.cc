#include "coordinator/cli/compat_script.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr char kOriginal[] =
    "#!/usr/bin/env python3\n# muster-compat: ours\nCOORDINATOR = "
    "b\"/usr/bin/coordinator\"\nrun()\n";

TEST(MakeCompatScript, NamesTheCoordinatorAndIsOurs) {
  const absl::StatusOr<std::string> script = MakeCompatScript(kOriginal, "/opt/a b/\"\\\xFF\n'c");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(*script,
            "#!/usr/bin/env python3\n# muster-compat: ours\n"
            "COORDINATOR = b\"/opt/a b/\\x22\\x5c\\xff\\x0a'c\"\nrun()\n");
  EXPECT_TRUE(IsCompatScript(*script));
  EXPECT_EQ(*MakeCompatScript(*script, "/usr/bin/coordinator"), kOriginal) << "made anew";
}

TEST(MakeCompatScript, RefusesOriginalsThatWereChanged) {
  for (const char* text : {"", "#!/bin/sh\nexec true\n", "#!x\n# muster-compat: y\n",
                           "#!x\n# muster-compat: y\nCOORDINATOR = b\"\""}) {
    EXPECT_EQ(MakeCompatScript(text, "/c").status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(IsCompatScript, TellsOursFromOthers) {
  EXPECT_TRUE(IsCompatScript(kOriginal));
  for (const char* text : {"", "#!/usr/bin/python3", "# muster-compat: no first line\n",
                           "#!/usr/bin/python3\nprint('# muster-compat: ')\n",
                           "#!/bin/sh\n\n# muster-compat: later\n", "\177ELF"}) {
    EXPECT_FALSE(IsCompatScript(text)) << text;
  }
}

}  // namespace
}  // namespace muster
