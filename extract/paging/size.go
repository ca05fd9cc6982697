package paging

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// SizeNames returns the parameters that may set the page size, the likeliest first.
func SizeNames(hint schemas.Pagination, s Signals) []string {
	words := schemas.Paging()
	first := []string{hint.Size}
	if words.Parameter(schemas.ParamSize, s.sizeName.name) {
		first = append(first, s.sizeName.name)
		if in := s.sizeName.in; in != "" && plainIdentifier(in) && !nestsPage(hint.Page, in) {
			first = append(first, in+"["+s.sizeName.name+"]")
		}
	}
	if in, _, ok := strings.Cut(hint.Page, "["); ok {
		for _, name := range words.Parameters(schemas.ParamSize) {
			if strings.HasPrefix(name, in+"[") {
				first = append(first, name)
			}
		}
	}
	for _, name := range words.Parameters(schemas.ParamSize) {
		if s.Next.Has(name) {
			first = append(first, name)
		}
	}
	all := records.Unique(append(first, words.Parameters(schemas.ParamSize)...))
	return slices.DeleteFunc(all, func(name string) bool { return nestsPage(name, hint.Page) || nestsPage(hint.Page, name) })
}

// nestsPage reports whether the first parameter is a member of the second, as page[size] is a member of page. A request
// with both is invalid.
func nestsPage(a, b string) bool {
	in, _, ok := strings.Cut(a, "[")
	return ok && in == b
}

// CutBracket splits a name like page[size].
func CutBracket(name string) (in, member string, ok bool) {
	in, rest, ok := strings.Cut(name, "[")
	return in, strings.TrimSuffix(rest, "]"), ok && strings.HasSuffix(rest, "]") && in != "" && !strings.Contains(rest[:len(rest)-1], "]")
}

// LargestPage is the largest page size that is requested.
const LargestPage = 1000

// FindSize finds the parameter that sets the page size. It sends all parameters in one request. They are divided into
// groups, and each group has its own size: for example, limit=1 and per_page=2. All sizes are smaller than the number
// of records on the first page. So the number of returned records identifies the group. Further requests search this
// group.
func FindSize(ctx context.Context, l List, st *Page, names []string) (found, evidence, refuted []string, err error) {
	few := names[:min(len(names), 4)]
	if st.N < 4 {
		return few, nil, nil, nil
	}
	for len(names) > 0 {
		groups, in := sizeGroups(st, names)
		extra := sizeQuery(st, names)
		probe, err := l.Look(ctx, Position{Extra: extra.Encode()})
		if Refused(err) {
			return few, nil, []string{"all size parameters together: " + wire.Excerpt(err.Error())}, nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		k, inside := probe.N, Compare(st.Hashes, probe.Hashes) != OtherRecords
		l.Release(probe)
		if k < 1 || k > groups || k >= st.N || !inside {
			return nil, nil, []string{fmt.Sprintf("%s with sizes from 1 to %d: %d records", extra.Names(), groups, k)}, nil
		}
		var left []string
		for i, name := range names {
			if in(i)+1 == k {
				left = append(left, name)
			}
		}
		if names = left; len(names) == 1 {
			return names, []string{fmt.Sprintf("%s=%d returned %d of the first page's %d records", names[0], k, k, st.N)}, nil, nil
		}
	}
	return nil, nil, nil, nil
}

// sizeGroups divides the names into groups. It returns the number of groups, and a function that returns the index of
// the group to which the name with index i belongs.
func sizeGroups(st *Page, names []string) (groups int, in func(i int) int) {
	groups = min(st.N-1, len(names))
	separate := groups - groups/3 // each of the likeliest parameters is a group of its own
	return groups, func(i int) int {
		if i < separate || separate == groups {
			return i % groups
		}
		return separate + (i-separate)%(groups-separate)
	}
}

func sizeQuery(st *Page, names []string) Query {
	_, in := sizeGroups(st, names)
	extra := make(Query)
	for i, name := range names {
		extra.Add(name, strconv.Itoa(in(i)+1))
	}
	return extra
}

// FirstSizes returns the first query that FindSize sends, or "".
func FirstSizes(st *Page, names []string) string {
	if st.N < 4 || len(names) == 0 {
		return ""
	}
	return sizeQuery(st, names).Encode()
}

func plainIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}
