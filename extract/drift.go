package extract

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
)

type drift struct {
	Drift
	total   int64
	fullest int
	short   int  // number of pages that are not full and may be the end of the list: 2 after pages of 10, 7 and 0 records. If records follow, the number is added to Uneven
	blank   int  // how many of the pages in short are empty
	counted bool // a page was requested by number or offset
	newest  time.Time
	notice  string // text that the server printed before the JSON of a page
}

// staleAfter is how far the clocks of a group of servers may differ.
const staleAfter = time.Minute

// see updates the counts after a page. It does not compare the sizes of pages that are requested by cursor.
func (d *drift) see(st *step) {
	if d.total >= 0 && st.total >= 0 && st.total != d.total {
		d.Moved++
	}
	d.total = st.total
	d.counted = d.counted || st.at.Counts()
	if st.at.Kind != paging.KindCursor && len(st.gaps) == 0 {
		d.size(st)
	}
	if st.a != nil && st.a.resp != nil {
		d.age(st.a.resp.Header, st.a.apart)
		if d.notice == "" {
			d.notice = st.a.resp.Notice
		}
	}
}

// size counts pages with too few records. Such a page counts only when a page with records follows it. An empty page
// counts at once if an earlier page announced it. If the pages of a list of N pages are numbered from 0, page N does
// not exist and does not count.
func (d *drift) size(st *step) {
	n := st.batch.N
	announced := st.Rule == RuleNoNext || st.Rule == RuleLastPage && !st.afterLast
	if d.fullest = max(d.fullest, n); n == 0 && announced && d.fullest > 0 {
		d.Uneven++
	}
	if n > 0 {
		d.Uneven, d.short, d.blank = d.Uneven+d.short, 0, 0
	}
	if (n < d.fullest || n == 0) && st.Rule == "" {
		d.short++
		if n == 0 {
			d.blank++
		}
	}
}

// age counts a page that comes from a cache. Such a page is older than a page before it, although it was requested
// later. If the argument `apart` is true, the page was requested out of order, and may be older without a cache.
func (d *drift) age(h http.Header, apart bool) {
	made, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	if age, err := strconv.Atoi(h.Get("Age")); err == nil && age > 0 && age < 1<<30 {
		made = made.Add(-time.Duration(age) * time.Second)
	}
	if !apart && made.Before(d.newest.Add(-staleAfter)) {
		d.Stale++
	}
	if made.After(d.newest) {
		d.newest = made
	}
}

func (d *drift) note() string {
	var out string
	if d.Stale > 0 {
		out = fmt.Sprintf("%d pages were older than those before them: there is a cache in front of the source", d.Stale)
	}
	if d.notice != "" {
		out = notes(out, fmt.Sprintf("the server printed %q before its JSON", d.notice))
	}
	return out
}

func notes(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}
