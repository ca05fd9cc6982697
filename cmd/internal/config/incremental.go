package config

import (
	"github.com/penstock-data/penstock/schemas"
)

func readIncremental(v value) schemas.Incremental {
	var i schemas.Incremental
	if !v.isMapping() {
		i.Auto = v.choice("auto") != ""
		return i
	}
	i.Format = schemas.MomentRFC3339
	v.mapping(fields{
		"field":    text(&i.Field),
		"param":    text(&i.Param),
		"until":    text(&i.Until),
		"format":   choice(&i.Format, schemas.MomentFormats()...),
		"lookback": set(&i.Lookback, period),
		"full":     set(&i.Full, period),
	}, "field")
	if i.Until != "" && i.Param == "" {
		v.fault(v.pos(), "%s has until but no param; a range needs a beginning", v.what)
	}
	return i
}
