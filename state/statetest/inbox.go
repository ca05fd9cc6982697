package statetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/state"
)

func event(n int) state.Event {
	return state.Event{
		Source: "main", ID: fmt.Sprintf("evt_%d", n), Type: "crm.lead.created", Scheme: "pinned-1",
		Received: time.Unix(1764000000, 123456000).UTC(), Header: map[string]string{"Service-Signature": "t=1"},
		Body: fmt.Appendf(nil, `{"id":"evt_%d"}`, n),
	}
}

func appended(t require.TestingT, b state.Inbox, e state.Event, want state.Appended, msg ...any) {
	was, err := b.Append(contextOf(t), e)
	require.NoError(t, err, msg...)
	require.Equal(t, want, was, msg...)
}

func events(t require.TestingT, b state.Inbox, source string, after int64, limit int) []state.Event {
	es, err := b.Events(contextOf(t), source, after, limit)
	require.NoError(t, err)
	return es
}

func inboxAppend(t *testing.T, _ Rig, open func() state.Store) {
	s := opened(t, open)
	b, err := s.OpenInbox(t.Context(), state.InboxOptions{})
	require.NoError(t, err)
	appended(t, b, event(1), state.Stored)
	odd := state.Event{Source: "other\x00\xff", ID: "\x00\xff'", Type: "../../x", Received: event(1).Received, Body: nil}
	appended(t, b, odd, state.Stored)
	appended(t, b, event(2), state.Stored)
	first, second := event(1), event(2)
	first.Ordinal, odd.Ordinal, second.Ordinal = 1, 2, 3
	odd.Body = []byte{}
	for range 2 {
		require.Equal(t, []state.Event{first, second}, events(t, b, "main", 0, 10))
		require.Equal(t, []state.Event{first}, events(t, b, "main", 0, 1))
		require.Equal(t, []state.Event{second}, events(t, b, "main", 1, 10))
		got := events(t, b, odd.Source, 0, 10)
		require.Len(t, got, 1)
		require.Empty(t, got[0].Body)
		got[0].Body = []byte{}
		require.Equal(t, odd, got[0])
		require.Empty(t, events(t, b, "nobody", 0, 10))
		all, err := b.Backlogs(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, int64(3), all[0].Head)
		require.Equal(t, first.Received, all[0].Oldest)
		require.NoError(t, b.Close())
		_, err = b.Append(t.Context(), event(9))
		require.ErrorIs(t, err, state.ErrInboxClosed)
		b = inboxOf(t, s, state.InboxOptions{})
	}
	r, err := s.ReadInbox(t.Context())
	require.NoError(t, err)
	require.Len(t, events(t, r, "main", 0, 10), 2)
	require.Error(t, r.Quarantine(t.Context(), 1, "x"))
	_, err = r.Append(t.Context(), event(9))
	require.ErrorIs(t, err, state.ErrInboxClosed)
	require.NoError(t, r.Close())
}

func inboxManyAtOnce(t *testing.T, _ Rig, open func() state.Store) {
	b := inboxOf(t, opened(t, open), state.InboxOptions{})
	const senders, each = 64, 20
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				appended(t, b, event(s*each+n), state.Stored)
			}
		})
	}
	wg.Wait()
	all := events(t, b, "main", 0, 1e6)
	require.Len(t, all, senders*each)
	for i, e := range all {
		require.Equal(t, int64(i+1), e.Ordinal)
	}
}

// inboxShared reads events while several processes append them. Each time, the reader requests only events whose
// ordinals are higher than the last ordinal that it has seen. It must still see all events.
func inboxShared(t *testing.T, r Rig, open func() state.Store) {
	if !r.Shared {
		b := inboxOf(t, opened(t, open), state.InboxOptions{})
		_, err := opened(t, open).OpenInbox(t.Context(), state.InboxOptions{})
		require.ErrorIs(t, err, state.ErrLocked)
		require.NoError(t, b.Close())
		return
	}
	const processes, each = 4, 100
	var wg sync.WaitGroup
	for p := range processes {
		b := inboxOf(t, opened(t, open), state.InboxOptions{})
		for half := range 2 {
			wg.Go(func() {
				for n := range each / 2 {
					appended(t, b, event((p*2+half)*each+n), state.Stored)
				}
			})
		}
	}
	b := inboxOf(t, opened(t, open), state.InboxOptions{})
	var after int64
	for seen := 0; seen < processes*each; {
		for _, e := range events(t, b, "main", after, 50) {
			require.Equal(t, after+1, e.Ordinal, "events become visible in the order of their ordinals, without holes")
			after = e.Ordinal
			seen++
		}
	}
	wg.Wait()
	require.Empty(t, events(t, b, "main", after, 50))
}

func inboxRepetitions(t *testing.T, _ Rig, open func() state.Store) {
	s := opened(t, open)
	b := inboxOf(t, s, state.InboxOptions{})
	appended(t, b, event(1), state.Stored)
	changed, elsewhere, nameless := event(1), event(1), event(0)
	changed.Body, elsewhere.Source, nameless.ID = []byte("another body"), "other", ""
	check := func(when string) {
		t.Helper()
		appended(t, b, event(1), state.Duplicate, when)
		appended(t, b, changed, state.Duplicate, when)
		appended(t, b, elsewhere, state.Duplicate, when)
		appended(t, b, nameless, state.Stored, when)
	}
	appended(t, b, changed, state.Conflicting)
	appended(t, b, elsewhere, state.Stored)
	check("at once")
	var conflicts []bool
	for _, e := range events(t, b, "main", 0, 3) {
		conflicts = append(conflicts, e.Conflict)
	}
	require.Equal(t, []bool{true, true, false}, conflicts, "both deliveries are marked as conflicts")
	require.NoError(t, b.Trim(t.Context(), "main", 1e9))
	require.NoError(t, b.Trim(t.Context(), "other", 1e9))
	require.Empty(t, events(t, b, "main", 0, 10))
	check("after trimming")
	require.NoError(t, b.Close())
	b = inboxOf(t, s, state.InboxOptions{})
	check("after trimming and a restart")
}

func inboxQuota(t *testing.T, _ Rig, open func() state.Store) {
	s := opened(t, open)
	b := inboxOf(t, s, state.InboxOptions{Quota: 1000})
	require.Equal(t, int64(1000), b.Quota())
	for n := 1; ; n++ {
		if _, err := b.Append(t.Context(), event(n)); err != nil {
			require.ErrorIs(t, err, state.ErrInboxFull)
			break
		}
		require.Less(t, n, 10, "ten events do not fit into a quota of 1000 bytes")
	}
	appended(t, b, event(1), state.Duplicate, "a stored event can be acknowledged again")
	require.NoError(t, b.Close())
	b = inboxOf(t, s, state.InboxOptions{Quota: 1000})
	_, err := b.Append(t.Context(), event(100))
	require.ErrorIs(t, err, state.ErrInboxFull, "the quota must also apply after a restart")
	require.NoError(t, b.Trim(t.Context(), "main", 1))
	appended(t, b, event(100), state.Stored, "after trimming, there is room again")
	require.NoError(t, b.Trim(t.Context(), "main", 1e9))
	all, err := b.Backlogs(t.Context())
	require.NoError(t, err)
	require.Zero(t, all[0].Bytes, "trimmed events are not counted")
}

func inboxDeadLetters(t *testing.T, _ Rig, open func() state.Store) {
	ctx, b := t.Context(), inboxOf(t, opened(t, open), state.InboxOptions{})
	for n := 1; n <= 3; n++ {
		appended(t, b, event(n), state.Stored)
	}
	require.NoError(t, b.Quarantine(ctx, 2, "no JSON"))
	require.ErrorIs(t, b.Quarantine(ctx, 77, "x"), state.ErrNoEvent)
	require.Len(t, events(t, b, "main", 0, 10), 3, "Events must still return a dead letter, because another reader may have to apply it")
	require.NoError(t, b.Trim(ctx, "main", 3))
	dead, err := b.DeadLetters(ctx, "main", 0, 10)
	require.NoError(t, err)
	require.Len(t, dead, 1, "trimming must keep dead letters")
	require.Equal(t, "no JSON evt_2", dead[0].Reason+" "+dead[0].ID)
	appended(t, b, event(2), state.Duplicate)
	next, err := b.AppendAgain(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, int64(4), next)
	require.Equal(t, int64(4), events(t, b, "main", 3, 10)[0].Ordinal)
	next, err = b.AppendAgain(ctx, 4)
	require.NoError(t, err)
	require.Equal(t, int64(5), next)
	require.Len(t, events(t, b, "main", 3, 10), 2, "an event can be appended again while it still waits")
	_, err = b.AppendAgain(ctx, 1)
	require.ErrorIs(t, err, state.ErrNoEvent, "the event was trimmed")
	one, err := b.Event(ctx, 5)
	require.NoError(t, err)
	require.Equal(t, "evt_2", one.ID)
	_, err = b.Event(ctx, 1)
	require.ErrorIs(t, err, state.ErrNoEvent)
	appended(t, b, event(9), state.Stored)
	require.NoError(t, b.Trim(ctx, "main", 1e9))
	all, err := b.Backlogs(ctx)
	require.NoError(t, err)
	require.Equal(t, []state.SourceBacklog{{Source: "main", Head: 6, Trimmed: 6}}, all)
}

func inboxCaptures(t *testing.T, _ Rig, open func() state.Store) {
	ctx, b := t.Context(), inboxOf(t, opened(t, open), state.InboxOptions{})
	e := event(1)
	for n := range 100 {
		e.Received, e.Body, e.From, e.Likely = time.Now(), fmt.Appendf(nil, "%d", n), fmt.Sprint(n/10), n != 5
		require.NoError(t, b.Capture(ctx, e))
	}
	e.Body, e.From = []byte("100"), "another"
	require.NoError(t, b.Capture(ctx, e), "there is room, because a capture without a signature is deleted")
	all, err := b.Captures(ctx, "main")
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(all, func(e state.Event) bool { return string(e.Body) == "5" }))
	require.Equal(t, "100", string(all[99].Body))
	require.Len(t, all, 100)
	require.Equal(t, "0", string(all[0].Body))
	require.Equal(t, e.Header, all[0].Header)
	require.Empty(t, events(t, b, "main", 0, 10), "a capture is not an event")
	require.NoError(t, b.Forget(ctx, "main", all[9].Ordinal))
	all, err = b.Captures(ctx, "main")
	require.NoError(t, err)
	require.Len(t, all, 90)
}

type model struct {
	kept   []state.Event
	bodies map[string][]string // by source and id, in order of arrival
	last   int64
}

func (m *model) append(e state.Event) state.Appended {
	was, key := state.Stored, e.Source+"/"+e.ID
	if e.ID != "" {
		before := m.bodies[key]
		switch {
		case slices.Contains(before, string(e.Body)):
			return state.Duplicate
		case len(before) > 0:
			was, e.Conflict = state.Conflicting, true
			for i := range m.kept {
				if k := &m.kept[i]; k.Source == e.Source && k.ID == e.ID && string(k.Body) == before[0] {
					k.Conflict = true
				}
			}
		}
		m.bodies[key] = append(before, string(e.Body))
	}
	m.last++
	e.Ordinal = m.last
	m.kept = append(m.kept, e)
	return was
}

func inboxModel(t *testing.T, _ Rig, open func() state.Store) {
	b := inboxOf(t, opened(t, open), state.InboxOptions{})
	m := &model{bodies: map[string][]string{}}
	steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) func(int) {
		source := rapid.SampledFrom([]string{"main", "other"}).Draw(rt, "source")
		e := state.Event{
			Source: source, ID: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "id"),
			Body: []byte(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "body")), Received: event(0).Received,
		}
		trim := rapid.IntRange(0, 5).Draw(rt, "trim") == 0
		back := rapid.Int64Range(0, 10).Draw(rt, "back")
		return func(round int) {
			if trim {
				through := max(0, m.last-back)
				require.NoError(t, b.Trim(t.Context(), source, through))
				m.kept = slices.DeleteFunc(m.kept, func(k state.Event) bool { return k.Source == source && k.Ordinal <= through })
				return
			}
			if e.ID != "" {
				e.ID += fmt.Sprint(round)
			}
			appended(t, b, e, m.append(e))
		}
	}), 20, 40)
	for round := range 8 {
		for _, step := range steps.Example(round) {
			step(round)
		}
		for _, source := range []string{"main", "other"} {
			want := slices.DeleteFunc(slices.Clone(m.kept), func(k state.Event) bool { return k.Source != source })
			require.Equal(t, briefs(want), briefs(events(t, b, source, 0, 1e6)))
		}
	}
}

func briefs(es []state.Event) (all []string) {
	for _, e := range es {
		all = append(all, fmt.Sprint(e.Ordinal, " ", e.Source, " ", e.ID, " ", string(e.Body), " ", e.Conflict))
	}
	return all
}

// A call of Events returns a limited number of bytes, even if most of the bytes are in the headers of the events.
// Invariant 6
func inboxBytes(t *testing.T, _ Rig, open func() state.Store) {
	b := inboxOf(t, opened(t, open), state.InboxOptions{})
	for n := range 24 {
		e := event(n)
		e.Header = map[string]string{"Service-Signature": strings.Repeat("s", 1<<20)}
		appended(t, b, e, state.Stored)
	}
	require.Len(t, events(t, b, "main", 0, 100), 16)
	require.Len(t, events(t, b, "main", 16, 100), 8)
}
