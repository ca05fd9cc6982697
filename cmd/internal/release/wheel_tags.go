package main

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// platformTags returns the platforms on which the binary runs, as the tags of a wheel.
func (b *binary) platformTags() ([]string, error) {
	arch := map[string]string{
		"linux/amd64": "x86_64", "linux/arm64": "aarch64", "darwin/amd64": "x86_64", "darwin/arm64": "arm64", "windows/amd64": "win_amd64", "windows/arm64": "win_arm64",
	}[b.os+"/"+b.arch]
	switch {
	case arch == "":
		return nil, fmt.Errorf("no tag of a wheel is known for %s on %s", b.os, b.arch)
	case b.os == "windows":
		return []string{arch}, nil
	case b.os == "darwin":
		major, err := macVersion(b.path)
		return []string{fmt.Sprintf("macosx_%d_0_%s", major, arch)}, err
	}
	minor, err := glibc(b.path)
	if err != nil {
		return nil, err
	}
	if minor == 0 {
		return []string{"manylinux_2_17_" + arch, "musllinux_1_1_" + arch}, nil
	}
	return []string{fmt.Sprintf("manylinux_2_%d_%s", minor, arch)}, nil
}

// manylinux are the platforms manylinux_2_N at which the C++ library of GCC grows: the largest versions GLIBCXX_3.4.N
// and CXXABI_1.3.N that every system with this version of glibc has. The tool auditwheel has the same list.
var manylinux = []struct{ glibc, glibcxx, cxxabi int }{
	{17, 19, 7}, {24, 22, 10}, {27, 24, 11}, {31, 28, 12}, {34, 29, 13}, {35, 30, 13}, {39, 33, 15},
}

// manylinuxLibraries are the libraries that every system has according to manylinux, as far as a Go binary may need
// them.
var manylinuxLibraries = []string{
	"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}

// glibc returns the minor version of the oldest glibc 2 with which an ELF binary runs, at least 17. It takes into account
// the C++ library that comes with that glibc. For a binary that loads no library, glibc returns 0.
func glibc(path string) (minor int, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	if err != nil || len(names) == 0 {
		return 0, err
	}
	for _, name := range names {
		if !slices.Contains(manylinuxLibraries, name) {
			return 0, fmt.Errorf("%s loads %s, which not every system has: manylinux does not allow that", path, name)
		}
	}
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return 0, err
	}
	minor = manylinux[0].glibc
	for _, library := range needs {
		for _, version := range library.Needs {
			least, err := glibcFor(version.Dep)
			if err != nil {
				return 0, fmt.Errorf("%s needs %s of %s: %w", path, version.Dep, library.Name, err)
			}
			minor = max(minor, least)
		}
	}
	return minor, nil
}

// glibcFor returns the minor version of the oldest glibc whose systems have a version of a library.
func glibcFor(version string) (minor int, err error) {
	family, number, _ := strings.Cut(version, "_")
	if version == "GLIBC_ABI_DT_RELR" {
		return 36, nil
	}
	parts := strings.Split(number, ".")
	n := make([]int, max(3, len(parts)))
	for i, part := range parts {
		if n[i], err = strconv.Atoi(part); err != nil {
			return 0, errors.New("no such version is known")
		}
	}
	for _, m := range manylinux {
		switch {
		case family == "GLIBC" && n[0] == 2:
			return n[1], nil
		case family == "GLIBCXX" && n[0] == 3 && n[1] == 4 && n[2] <= m.glibcxx,
			family == "CXXABI" && n[0] == 1 && n[1] == 3 && n[2] <= m.cxxabi,
			family == "GCC" && n[0] <= 4:
			return m.glibc, nil
		case family == "GCC" && n[0] <= 7 && m.glibc >= 27:
			return m.glibc, nil
		}
	}
	return 0, errors.New("no such version is known")
}

// Load commands of a Mach-O file that have the oldest version of macOS.
const (
	loadVersionMin   = 0x24 // LC_VERSION_MIN_MACOSX
	loadBuildVersion = 0x32 // LC_BUILD_VERSION
)

// macVersion returns the major version of the oldest macOS on which a Mach-O binary runs.
func macVersion(path string) (major uint32, err error) {
	f, err := macho.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, load := range f.Loads {
		raw := load.Raw()
		at := map[uint32]int{loadVersionMin: 8, loadBuildVersion: 12}[f.ByteOrder.Uint32(raw)]
		if at == 0 || len(raw) < at+4 {
			continue
		}
		version := f.ByteOrder.Uint32(raw[at:]) // major, minor and patch in 16, 8 and 8 bits
		major = version >> 16
		if version&0xffff != 0 {
			major++ // since macOS 11, tags have no minor versions
		}
		return max(major, 11), nil
	}
	return 0, fmt.Errorf("%s does not say which version of macOS it needs", path)
}
