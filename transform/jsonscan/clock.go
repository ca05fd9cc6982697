package jsonscan

// An instant has exactly the form 2006-01-02T15:04:05[.999999](Z|±07:00). A date has the form 2006-01-02. The day must
// exist in the calendar, in one of the years 1 to 9999. Everything else is text, for example an instant without a zone,
// with more than six decimals, with a leap second, or with a space in place of the T.
const shortestTime = len("2006-01-02T15:04:05Z")

// LongestTime is the length of the longest instant.
const LongestTime = len("2006-01-02T15:04:05.999999+07:00")

// ParseTime returns the instant that the text spells, in microseconds since 1970.
func ParseTime(text []byte) (micros int64, ok bool) {
	micros, n := TimePrefix(text)
	return micros, n > 0 && n == len(text)
}

// TimePrefix returns the instant with which b begins, and its length. If b does not begin with an instant, the length
// is 0.
func TimePrefix(b []byte) (micros int64, n int) {
	if len(b) < shortestTime {
		return 0, 0
	}
	days, ok := date(b)
	h, m, s := pair(b, 11), pair(b, 14), pair(b, 17)
	if !ok || b[10] != 'T' || b[13] != ':' || b[16] != ':' || h > 23 || m > 59 || s > 59 {
		return 0, 0
	}
	micros, n = fraction(b, 19)
	if n == 0 {
		return 0, 0
	}
	east, n := zone(b, n)
	if n == 0 {
		return 0, 0
	}
	seconds := int64(days)*86400 + int64(h*3600+m*60+s) - int64(east)
	return seconds*1e6 + micros, n
}

func fraction(b []byte, i int) (micros int64, end int) {
	if b[i] != '.' {
		return 0, i
	}
	end = i + 1
	for ; end < len(b) && IsDigit(b[end]); end++ {
		micros = micros*10 + int64(b[end]-'0')
	}
	count := end - i - 1
	if count == 0 || count > 6 {
		return 0, 0
	}
	return micros * Pow10[6-count], end
}

func zone(b []byte, i int) (east, end int) {
	if i < len(b) && b[i] == 'Z' {
		return 0, i + 1
	}
	if i+6 > len(b) || b[i] != '+' && b[i] != '-' || b[i+3] != ':' {
		return 0, 0
	}
	h, m := pair(b, i+1), pair(b, i+4)
	if h > 23 || m > 59 {
		return 0, 0
	}
	east = h*3600 + m*60
	if b[i] == '-' {
		east = -east
	}
	return east, i + 6
}

func pair(b []byte, i int) int {
	t, u := b[i]-'0', b[i+1]-'0'
	if t > 9 || u > 9 {
		return 100
	}
	return int(t)*10 + int(u)
}

// ParseDate returns the date that the text spells, in days since 1970.
func ParseDate(text []byte) (days int32, ok bool) {
	if len(text) != len("2006-01-02") {
		return 0, false
	}
	return date(text)
}

func date(b []byte) (days int32, ok bool) {
	century, year, month, day := pair(b, 0), pair(b, 2), pair(b, 5), pair(b, 8)
	if century > 99 || year > 99 || b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	year += century * 100
	if year == 0 || month == 0 || month > 12 || day == 0 || day > daysIn(year, month) {
		return 0, false
	}
	return civil(year, month, day), true
}

func daysIn(year, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return int(monthDays[month-1])
}

var monthDays = [12]uint8{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// civil returns the number of days since 1970-01-01. It counts years from March, so that the leap day is the last day
// of a year.
func civil(year, month, day int) int32 {
	if month <= 2 {
		year--
		month += 12
	}
	const before1970 = 719468
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return int32(365*year + year/4 - year/100 + year/400 + dayOfYear - before1970)
}
