package sandbox

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPlanInvariants(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.SampledFrom([]float64{0, 0.1, 0.5, 1})
		f := WebhookFaults{
			Duplicate: share.Draw(t, "duplicate"), Reorder: share.Draw(t, "reorder"), Delay: share.Draw(t, "delay"), Loss: share.Draw(t, "loss"),
			Conflict: share.Draw(t, "conflict"), Unknown: share.Draw(t, "unknown"), Forged: share.Draw(t, "forged"),
			Window: rapid.IntRange(0, 20).Draw(t, "window"),
		}
		require.NoError(t, f.check())
		calm := f
		calm.Duplicate, calm.Loss = 0, 0
		seed := rapid.Uint64().Draw(t, "seed")
		one, two := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 1))
		for place := range 30 {
			e := event{id: eventID(rand.New(rand.NewPCG(uint64(place), 2))), kind: "contact.updated", subject: "con_1", body: []byte(`{"id":"x"}`)}
			got, other := f.plan(one, e, place, now), calm.plan(two, e, place, now)
			kinds, calmKinds := map[string]int{}, map[string]int{}
			for _, p := range got {
				kinds[p.Kind]++
				require.Equal(t, p.Kind == DeliveredLost, p.Done)
				require.True(t, p.place == never || p.place <= place+f.Window)
				require.Equal(t, p.Kind != DeliveredConflict, p.Kind == DeliveredUnknown || string(p.body) == string(e.body))
			}
			for _, p := range other {
				calmKinds[p.Kind]++
			}
			require.Equal(t, 1, kinds[DeliveredEvent]+kinds[DeliveredLost])
			require.LessOrEqual(t, kinds[DeliveredDuplicate], 2)
			for _, kind := range []string{DeliveredConflict, DeliveredUnknown, DeliveredForged} {
				require.Equal(t, calmKinds[kind], kinds[kind], kind)
			}
		}
	})
}
