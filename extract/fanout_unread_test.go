package extract

import (
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
)

type failing struct {
	lines []string
	err   error
}

func (f failing) tuples() iter.Seq2[tuple, error] {
	return func(yield func(tuple, error) bool) {
		for _, line := range f.lines {
			if !yield(tuple{line: []byte(line)}, nil) {
				return
			}
		}
		if f.err != nil {
			yield(tuple{}, f.err)
		}
	}
}

func TestFanOutUnreadTuples(t *testing.T) {
	t.Parallel()
	lost := errors.New("read temporary file: input/output error")
	for _, c := range []struct {
		over failing
		want error
	}{
		{failing{[]string{`["1"]`}, lost}, lost},
		{failing{[]string{`["1"]`, `["2"]`}, nil}, nil},
	} {
		next, stop := iter.Pull2(c.over.tuples())
		require.ErrorIs(t, skip(next, 2), c.want)
		stop()
	}
}
