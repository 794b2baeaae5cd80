# Zig's C++ as a cross compiler: binaries for a machine and a glibc that need not be this one's.
# KRILL_ZIG is the command, KRILL_TARGET what it builds for: `aarch64-linux-gnu.2.28`.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "$ENV{KRILL_TARGET}")
set(CMAKE_CXX_COMPILER "$ENV{KRILL_ZIG}" c++ -target "$ENV{KRILL_TARGET}")
# The machine's own `ar` may not know the objects.
set(CMAKE_CXX_ARCHIVE_CREATE "\"$ENV{KRILL_ZIG}\" ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"$ENV{KRILL_ZIG}\" ranlib <TARGET>")
