#!/usr/bin/env bash
# IRkernel, the kernel of R. IRKERNEL_KERNELS is for JUPYTER_PATH. Where R lacks it, Debian's packages are unpacked beside
# the build, which takes no root.
source "$(dirname "$0")/need.sh"
[[ $1 == start ]] || exit 0

place=$repository/build/irkernel
command -v Rscript >/dev/null || missing "there is no R: install it (Debian: apt-get install r-base-core)"
has_irkernel() { Rscript -e 'quit(status = if (requireNamespace("IRkernel", quietly = TRUE)) 0 else 1)' >/dev/null 2>&1; }
variables='{}'
if ! has_irkernel; then
  libraries=$place/root/usr/lib/R/site-library
  shared=$place/root/usr/lib/$(gcc -print-multiarch 2>/dev/null || dpkg-architecture -qDEB_HOST_MULTIARCH)
  export R_LIBS=$libraries LD_LIBRARY_PATH=$shared
  if ! has_irkernel; then
    rm -rf "$place"
    mkdir -p "$place/debs" "$place/root"
    remedy="IRkernel is not installed, and cannot be fetched: install it (Debian: apt-get install r-cran-irkernel)"
    mapfile -t packages < <(LC_ALL=C apt-get install -s --no-install-recommends r-cran-irkernel 2>/dev/null |
      awk '$1 == "Inst" { print $2 }')
    ((${#packages[@]} > 0)) || missing "$remedy"
    (cd "$place/debs" && apt-get -q download "${packages[@]}" >&2) || missing "$remedy"
    for package in "$place"/debs/*.deb; do dpkg -x "$package" "$place/root"; done
    rm -r "$place/debs"
    has_irkernel || missing "$remedy"
  fi
  variables="{\"R_LIBS\": \"$libraries\", \"LD_LIBRARY_PATH\": \"$shared\"}"
fi
mkdir -p "$place/kernels/ir"
cat >"$place/kernels/ir/kernel.json" <<END
{"argv": ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], "display_name": "R", "language": "R",
 "env": $variables}
END
available "IRKERNEL_KERNELS=$place"
