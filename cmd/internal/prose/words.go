package main

import "regexp"

type rule struct{ words, better string }

// rules are the words to avoid. The variable allowed has the exceptions, because RE2 has no look-around.
var rules = []rule{
	{`told|tells?|telling`, "reports, prints, says"},
	{`stands?|stood|standing`, "is"},
	{`bears?|bore|borne|bearing`, "has, carries"},
	{`lies|lain`, "is"},
	{`whoever|whomever|nobody|somebody`, "name the process or the person"},
	{`be it|be they`, "leave it out"},
	{`by then`, "name the time"},
	{`nothing but`, "only"},
	{`none that|none who`, "no …, or leave it out"},
	{`amid|amidst`, "during, while"},
	{`anew`, "again"},
	{`lets? go of`, "releases, closes, terminates"},
	{`like that`, "name the property"},
	{`of its own accord`, "by itself"},
	{`alone`, "only"},
	{`knows? no|knows? nothing of`, "has no, does not know"},
	{`as (?:they|it) comes?`, "in order of arrival"},
	{`what comes of`, "the result of"},
	{`is asked|are asked|was asked|were asked|asked for|being asked`, "is requested"},
	{`hitherto|whence|thence|thereof|therein|whereupon|wherein|ere|lest|aught|naught|upon`, "say it in today's words"},
	{`failed to|unable to`, "name the verb and the object: read FILE: …"},
}

// allowed are phrases with these words that are plain English.
var allowed = regexp.MustCompile(`(?i)\b(?:stands? for|stand-in|stand-ins|stand-?alone|standing by|bearer|` +
	`(?:leaves?|left|let|leaving) [a-z]{0,8} ?alone|(?:runs?|sent|tried|gate|parameter) alone|tells? [a-z ]{0,24}apart|based upon)\b`)

const maxWords = 40

var patterns = compile(rules)

func compile(rules []rule) []*regexp.Regexp {
	compiled := make([]*regexp.Regexp, len(rules))
	for i, r := range rules {
		compiled[i] = regexp.MustCompile(`(?i)\b(?:` + r.words + `)\b`)
	}
	return compiled
}
