"""Kinds of values that all domains share: dates, amounts, names, contact details, messages."""

from sottovoce.corpora.synthetic.lexicon import Kind

# Dates, times, durations and counts, in digits and in words.
AMOUNTS: dict[str, Kind] = {
    "date": Kind(
        entity="date",
        private=True,
        own=6,
        recurrence=0.2,
        grammar="""
            [today|tomorrow|tonight|this week|this weekend|next week|this afternoon|this evening]
            {weekday}
            (this|next|on) {weekday} (morning|evening|afternoon|night)
            <calendar>
            [tomorrow|this] [morning|afternoon|evening|night]
            next [month|week|weekend|year]
            [in|within] <count> [days|weeks|months]
            {weekday} the [{day_th}|{ordinal}]
            the [day after tomorrow|first of the month|end of the month|week after next]
            [christmas|new year's eve|easter|thanksgiving|valentine's day|my birthday|mother's day]
            {month}
        """,
    ),
    "past_date": Kind(
        entity="date",
        private=True,
        own=6,
        recurrence=0.2,
        grammar="""
            [yesterday|today|last night|this morning|last week|last month|last weekend]
            (last|on) {weekday} (morning|evening|afternoon|night)
            [yesterday|this] [morning|afternoon|evening]
            <count> [days|weeks|months] ago
            <calendar>
            the [day before yesterday|other day|week before last]
            last [christmas|easter|thanksgiving|summer|winter|year|spring]
            (last) {month}
        """,
    ),
    "birth_date": Kind(
        entity="date",
        private=True,
        own=4,
        recurrence=0.7,
        grammar="""
            {month} [{day_th}|{ordinal}]
            {month} [{ordinal}|{day}] {birth_year}
            the [{day_th}|{ordinal}] of {month}
            {day} {month} {birth_year}
            {digit_high}/{day}/{birth_year}
            {month} {ordinal} nineteen {number_word}
        """,
    ),
    "time": Kind(
        entity="time",
        own=6,
        recurrence=0.35,
        grammar="""
            <clock>
            [noon|lunchtime|dinner time|bedtime|breakfast|midnight|sunset|the usual time]
            [{hour}|{hour_word}] (sharp|ish|tonight|tomorrow)
        """,
    ),
    "duration": Kind(
        entity="duration",
        grammar="""
            <count> [minutes|hours|days|weeks]
            [{number}|{number_word}] [minutes|seconds]
            [an hour|half an hour|a minute|a couple of hours|a few minutes|a week|a month]
            <count> and a half [hours|minutes]
            an hour and [a half|{number_word} minutes]
        """,
    ),
    "count": Kind(
        entity="number",
        grammar="""
            {small_word}
            {small}
            [{number}|{number_word}]
            [a couple of|a few|a dozen|half a dozen|several]
        """,
    ),
}


# Names, contact details and addresses. Telephone numbers are fictional (555-01xx of the North
# American plan; 020 7946 0xxx and 07700 900xxx of the British one, which are reserved for drama),
# and e-mail addresses end in `.example` (RFC 2606).
PEOPLE: dict[str, Kind] = {
    "person": Kind(
        entity="person",
        private=True,
        own=20,
        recurrence=0.6,
        grammar="""
            {first_names}
            <full_name>
            [mom|mum|dad|grandma|mommy|nana|grandpa|daddy|papa|auntie|abuela|babushka]
            [aunt|uncle|cousin|grandma|sister|coach|father] {first_names}
            {first_names} {letter}
            [doctor|mr|mrs|ms|miss|professor|judge] {last_names}
            {first_names} [from work|from school|from the gym|next door|the plumber|the babysitter]
            [dr|mr|mrs] <full_name>
            {first_names} and {first_names}
            {first_names} {letter} {last_names}
            {first_names} {last_names} [junior|senior|the third]
        """,
    ),
    "relation": Kind(
        entity="person",
        private=True,
        own=6,
        recurrence=0.6,
        grammar="""
            [mom|wife|husband|dad|mum|sister|brother|boss|mother|son|daughter|parents|father]
            [girlfriend|boyfriend|partner|best friend|roommate|grandmother|grandfather|uncle|aunt]
            [mother in law|father in law|brother in law|sister in law|stepmother|stepdad|ex husband]
            [neighbor|landlord|babysitter|dentist|lawyer|accountant|mechanic|plumber|therapist]
            [youngest|oldest|little] [son|daughter|brother|sister]
            [kids|in laws|grandparents|cousins|twins|godmother|nephew|niece|teammate|assistant]
        """,
    ),
    "phone": Kind(
        entity="phone",
        private=True,
        own=8,
        recurrence=0.5,
        grammar="""
            555-01{digit}{digit}
            five five five zero one <said2>
            {digit_high}{digit}{digit}-555-01{digit}{digit}
            {digit_high_word} {digit_word} {digit_word} five five five zero one <said2>
            555 01{digit}{digit}
            five five five oh one [<said2>|double {digit_word}]
            01{digit}{digit}
            ({digit_high}{digit}{digit}) 555 01{digit}{digit}
            020 7946 0{digit}{digit}{digit}
            07700 900{digit}{digit}{digit}
            oh seven seven double oh nine double oh {digit_word} {digit_word} {digit_word}
            oh two oh seven nine four six oh {digit_word} {digit_word} {digit_word}
            5550 1{digit}{digit}
        """,
    ),
    "email": Kind(
        entity="email",
        private=True,
        own=6,
        recurrence=0.5,
        grammar="""
            [{first_names}@mail.example|{first_names}@post.example|{first_names}@work.example]
            {first_names}.{letter}@mail.example
            {first_names} dot {letter} at [mail|post|work] dot example
            {first_names}{digit}{digit}@post.example
            {letter}.{nouns}@work.example
            {first_names} at [mail|inbox] dot example
            {nouns}.{nouns}@inbox.example
            {first_names}.{nouns}{digit}@letters.example
        """,
    ),
    "address": Kind(
        entity="address",
        private=True,
        own=4,
        recurrence=0.65,
        grammar="""
            {house} {streets} <street_kind>
            {house} {streets} <street_kind> {cities}
            {number_word} {streets} <street_kind>
            [flat|apartment|unit|suite] {number} {house} {streets} <street_kind>
            {house} [north|south|east|west] {streets} <street_kind>
            the corner of {streets} and {streets}
            {streets} <street_kind>
            {house}{letter} {streets} <street_kind> in {cities}
        """,
    ),
    "city": Kind(
        entity="location",
        private=True,
        own=4,
        recurrence=0.5,
        grammar="""
            {cities}
            [downtown|north|east|west|south] {cities}
            port {last_names}
            [new|old|lower|upper|little] {cities}
            [lake|mount|fort] {first_names}
        """,
    ),
    "group": Kind(
        entity="organisation",
        private=True,
        own=5,
        recurrence=0.6,
        grammar="""
            [family|work|book club|team|friends|soccer moms|band|choir|neighbors|poker night]
            the {last_names} [family|cousins|gang]
            {adjectives} {nouns} [club|crew|gang]
            {weekday} [runners|lunch|drinks|football|choir]
            {streets} <street_kind> [neighbors|parents|residents]
            [class of {recent_year}|{cities} trip|{first_names}'s wedding|{first_names}'s birthday]
        """,
    ),
    "business": Kind(
        entity="organisation",
        own=6,
        recurrence=0.4,
        grammar="""
            the [bank|pharmacy|school|office|front desk|vet|airport|landlord|bakery|gym|library]
            {last_names}'s [pizza|garage|bakery|diner|hardware|flowers|plumbing|law office]
            [golden|blue|red|little|happy|royal] [dragon|garden|palace|lotus|spoon|kitchen]
            {cities} [taxi|city hall|general hospital|airlines|grill|plumbing]
            {streets} <street_kind> [clinic|school|dental|garage|cafe|dry cleaners]
            {last_names} and {last_names}
            {last_names} and sons
        """,
    ),
}


# Messages, recipients and channels.
MESSAGES: dict[str, Kind] = {
    "message": Kind(
        entity="text",
        private=True,
        own=12,
        recurrence=0.15,
        grammar="""
            [i'm|i am] [on my way|running late|here|almost there|at home|stuck in traffic|outside]
            [i'll|i will] be [there|home|back] [in <count> minutes|at <clock>|soon|late|by {hour}]
            [happy birthday|thank you|good night|i love you|see you soon|call me back|good morning]
            [can|could] you [pick up|bring|buy] [milk|bread|the kids|{first_names}|some {plurals}]
            [what time|where|when] [are we meeting|is dinner|do you want to meet|is the {nouns}]
            [dinner|lunch|the party|the meeting|practice] is [at <clock>|on {weekday}|cancelled]
            the {nouns} is [{adjectives}|ready|broken|at {streets} <street_kind>]
            {first_names} [says hi|is sick|can't come|is coming too|needs a ride|had the baby]
            [don't|please don't] forget [the {nouns}|to call {first_names}|{first_names}'s {nouns}]
            i need [a {nouns}|the {adjectives} {nouns}|to talk to you|{small} {plurals}]
            [let's|we should] [meet|eat|talk] [{weekday}|at <clock>|in {cities}|at {first_names}'s]
            [yes|no|okay|sure|maybe|sounds good|never mind] (i'll [call|text] you later)
            did you [see|find|like|lose] the {adjectives} {nouns}
            we're [in {cities}|at {first_names}'s place|leaving at <clock>|out of {plurals}]
            my [new] number is 555-01{digit}{digit}
            [congratulations on|sorry about|good luck with] the {nouns}
            [the code is|the gate code is|my flight is] {digit}{digit}{digit}{digit}
            why did {first_names} [take|sell|paint|hide] the {adjectives} {nouns}
            [ask|tell] {first_names} about the {nouns}
        """,
    ),
    "subject": Kind(
        entity="text",
        private=True,
        own=6,
        recurrence=0.15,
        grammar="""
            [the meeting|dinner|the invoice|vacation|the report|the wedding|rent|homework]
            the {adjectives} {nouns}
            {month} [invoice|report|rent|budget|schedule]
            {first_names}'s [birthday|wedding|party|surgery|homework]
            [trip|flight|move] to {cities}
            [{weekday}|{month}] [meeting|lunch|plans]
            {nouns} and {nouns}
        """,
    ),
    "app": Kind(
        entity="product",
        own=2,
        recurrence=0.6,
        grammar="""
            [parley|chirrup|pigeon|hoot|pingo|yonder|natter|murmur|loop|carrier|tincan|semaphore]
        """,
    ),
    "phone_type": Kind(
        entity="label",
        grammar="[mobile|work|home|cell|office|cell phone|landline|business|second|old|main]",
    ),
    "media": Kind(
        entity="label",
        grammar="""
            [photo|picture|video|link|file|document|voice note|selfie|gif|screenshot|contact card]
        """,
    ),
    "audio_device": Kind(
        entity="product",
        own=2,
        recurrence=0.6,
        grammar="""
            [speaker|speakerphone|bluetooth|headset|headphones|car|earbuds|kitchen speaker|my watch]
            [living room|bedroom|office|bathroom|garage] [speaker|display]
        """,
    ),
}
