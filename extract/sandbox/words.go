package sandbox

// The words of the generated records. They include non-ASCII letters, characters outside the basic plane of Unicode,
// and letters that are written from right to left.
var (
	firstNames = []string{"Zoë", "Miguel", "Aïcha", "Björn", "Chloé", "Dmitri", "Élodie", "Fatima", "Grace", "Hana",
		"Ines", "José", "Kwame", "Łukasz", "Mei", "Noor", "Olu", "Priya", "Quentin", "Renée", "Søren", "Tomás", "Uma",
		"Vilhelm", "Wei", "Ximena", "Yuki", "Žofia", "محمد", "نور", "דניאל", "さくら", "Ольга"}
	lastNames = []string{"Ñandú", "O'Brien", "Müller", "García", "van der Berg", "Nakamura", "Okafor", "Kowalski",
		"Šimić", "Johansson", "Patel", "D'Angelo", "Nguyễn", "Smith-Jones", "Ó Súilleabháin", "Yılmaz", "Ferreira",
		"Papadopoulos", "Иванова", "العربي", "כהן", "山田"}
	companyWords = []string{"Nordic", "Blue", "Atlas", "Quartz", "Harbour", "Möbel", "Solar", "Café", "Iron", "Delta",
		"Verde", "Lumen", "Praxis", "Orchid", "Granite", "Zenith", "Kraft", "Pixel", "River", "Summit"}
	companyForms = []string{"GmbH", "Ltd", "Inc.", "S.A.", "LLC", "& Sons", "AB", "株式会社", "B.V."}
	subjects     = []string{"Follow up on", "Prepare", "Review", "Call about", "Send", "Discuss", "Repair", "Deliver",
		"Plan", "Renew", "Cancel", "Translate", "Archive"}
	objects = []string{"the website relaunch", "the annual contract", "a quote for 12 desks", "the broken printer",
		"the onboarding <workshop>", "invoice & receipt", "the \"summer\" campaign", "a support plan", "the warehouse move",
		"the Q4 report", "new headsets", "the café menu", "a 10% discount", "path C:\\data\\in"}
	scripts   = []string{"🦤", "👩‍🚀 🚀", "مرحبا بالعالم", "שלום", "日本語のメモ", "e\u0301te\u0301", "naïve – “quoted”", "👍🏽"}
	streets   = []string{"Main Street", "Rue de l'Église", "Bahnhofstraße", "Calle Mayor", "Østergade", "Harbour Road", "大通り"}
	cities    = []string{"Berlin", "São Paulo", "Zürich", "Kraków", "Malmö", "Nairobi", "Austin", "القاهرة", "Ōsaka", "Québec"}
	states    = []string{"BE", "SP", "ZH", "TX", "QC", "Skåne"}
	countries = []string{"Germany", "Brazil", "Switzerland", "Poland", "Sweden", "Kenya", "United States", "Egypt", "Japan", "Canada"}
	colours   = []string{"#FF6B6B", "#4ECDC4", "#1A535C", "danger", "info", "success", "primary"}
)
