"""Builds and tests the recipe of conda without a channel: conda.py RECIPE FOLDER.

The compilers that it asks for are packages with nothing in them but their names; those of this machine serve.
"""

import pathlib
import sys

from rattler_build import EnvironmentIsolation, Stage0Recipe, ToolConfiguration, VariantConfig

recipe, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
channel = folder / "channel"

STAND_IN = """\
package:
  name: {name}_linux-64
  version: "1"
build:
  script: {script}
"""

# As conda's own do, they say in a variable what their compiler is called.
SAYS = 'mkdir -p "$PREFIX/etc/conda/activate.d" && echo "export {0}" > "$PREFIX/etc/conda/activate.d/{1}.sh"'

for name, variable in {"gcc": "CC=cc", "gxx": "CXX=c++", "rust": None, "sysroot": None}.items():
    script = SAYS.format(variable, name) if variable else "true"
    path = folder / "recipes" / name / "recipe.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN.format(name=name, script=script))
    Stage0Recipe.from_file(path).run_build(output_dir=channel, channels=[])

# Cargo and its settings are those of who calls this.
Stage0Recipe.from_file(recipe).run_build(
    variant_config=VariantConfig(
        {
            "c_compiler": ["gcc"],
            "cxx_compiler": ["gxx"],
            "rust_compiler": ["rust"],
            "c_stdlib": ["sysroot"],
        }
    ),
    tool_config=ToolConfiguration(test_strategy="native"),
    output_dir=channel,
    channels=[channel.as_uri()],
    env_isolation=EnvironmentIsolation.NONE,
)
