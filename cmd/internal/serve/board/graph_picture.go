package board

import (
	"fmt"
	"slices"
)

// place computes the places of the boxes and the lines between them. Each column is in the order of the column before
// it, so that few lines cross.
func (v *graphView) place() {
	center := map[string]int{}
	for column, kind := range graphKinds() {
		for i, n := range v.ordered(kind, center) {
			box := graphBox{GraphNode: n, X: column * boxColumn, Y: i * boxPitch, Short: brief(n.Name, boxName)}
			center[n.ID] = box.Y + boxHeight/2
			v.Boxes = append(v.Boxes, box)
			v.Width, v.Height = max(v.Width, box.X+boxWidth+2), max(v.Height, box.Y+boxHeight+2)
		}
	}
	left := map[string]int{}
	for _, b := range v.Boxes {
		left[b.ID] = b.X
	}
	for _, e := range v.Edges {
		from, to := left[e.From]+boxWidth, left[e.To]
		bend := (to - from) / 2
		v.Lines = append(v.Lines, shape{"", fmt.Sprintf("M%d %dC%d %d %d %d %d %d", from, center[e.From], from+bend, center[e.From], to-bend, center[e.To], to, center[e.To])})
	}
}

// ordered returns the nodes of a kind, sorted by the mean height of the nodes before them. Nodes of the first column stay
// in their order.
func (v *graphView) ordered(kind string, center map[string]int) (all []GraphNode) {
	for _, n := range v.Nodes {
		if n.Kind == kind {
			all = append(all, n)
		}
	}
	sum, count := map[string]int{}, map[string]int{}
	for _, e := range v.Edges {
		if y, ok := center[e.From]; ok {
			sum[e.To] += y
			count[e.To]++
		}
	}
	height := func(n GraphNode) int { return sum[n.ID] / max(1, count[n.ID]) }
	slices.SortStableFunc(all, func(a, b GraphNode) int { return height(a) - height(b) })
	return all
}

// rows makes the rows of the table that has the same content as the picture.
func (v *graphView) rows() {
	byID, into, out := map[string]GraphNode{}, map[string][]string{}, map[string][]string{}
	for _, n := range v.Nodes {
		byID[n.ID] = n
	}
	for _, e := range v.Edges {
		out[e.From], into[e.To] = append(out[e.From], e.To), append(into[e.To], e.From)
	}
	nodes := func(ids []string) (all []GraphNode) {
		for _, id := range ids {
			all = append(all, byID[id])
		}
		return all
	}
	for _, n := range v.Nodes {
		if n.Kind != "stream" {
			continue
		}
		row := graphRow{Stream: n, Sources: nodes(into[n.ID]), Tables: nodes(out[n.ID])}
		for _, t := range row.Tables {
			row.Views = append(row.Views, nodes(out[t.ID])...)
		}
		v.Rows = append(v.Rows, row)
	}
}

// Says returns what the box of a node says to a person who does not see it.
func (n GraphNode) Says() string {
	return fmt.Sprintf("%s %s, %s", n.Kind, n.Name, toneWord(n.State))
}

func toneWord(t Tone) string {
	switch t {
	case ToneNew:
		return "not read yet"
	case ToneAttention:
		return "needs attention"
	case ToneFailing:
		return "failed"
	case ToneBusy:
		return "running"
	}
	return string(t)
}
