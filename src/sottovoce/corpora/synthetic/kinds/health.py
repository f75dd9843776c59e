"""Medicines, doctors, complaints, readings. Clinics, pharmacies and insurers are invented."""

from sottovoce.corpora.synthetic.lexicon import Kind

HEALTH: dict[str, Kind] = {
    "medicine": Kind(
        entity="medicine",
        private=True,
        own=5,
        recurrence=0.75,
        grammar="""
            {medicines}
            {medicines} [tablets|pills|cream|drops|capsules|inhaler|injection|syrup|patches]
            [baby|generic|extra strength|extended release|children's|low dose] {medicines}
            [blood pressure|thyroid|heart|allergy|sleeping|pain|water|cholesterol|migraine] pills
            [inhaler|cough syrup|eye drops|birth control|antibiotics|vitamins|painkillers|antacid]
        """,
    ),
    "dosage": Kind(
        entity="dosage",
        private=True,
        own=4,
        recurrence=0.5,
        grammar="""
            {strength} [milligrams|mg|micrograms|milligram]
            [{small_word}|{small}] [tablets|pills|capsules|drops]
            {number_word} [milligrams|units|drops]
            {strength}mg
            {small} [puffs|units|milliliters|teaspoons|ml]
            [a teaspoon|a double dose|one puff|half a tablet|a full dose|half the usual dose]
        """,
    ),
    "frequency": Kind(
        entity="frequency",
        grammar="""
            [every day|twice a day|daily|once a day|every morning|every night|three times a day]
            every [{small_word}|{small}] hours
            [every|each] {weekday}
            [weekly|once a week|every other day|before every meal|with meals|at bedtime|hourly]
            {small_word} times [a day|a week]
            every {weekday} and {weekday}
        """,
    ),
    "doctor": Kind(
        entity="person",
        private=True,
        own=4,
        recurrence=0.75,
        grammar="""
            [doctor|dr] {last_names}
            [doctor|dr] <full_name>
            [doctor|nurse] {first_names}
            <full_name>
            [nurse|professor] {last_names}
        """,
    ),
    "specialty": Kind(
        entity="label",
        grammar="""
            [dentist|dermatologist|cardiologist|pediatrician|eye doctor|therapist|gynecologist]
            [physical therapist|psychiatrist|neurologist|allergist|podiatrist|orthodontist|surgeon]
            [oncologist|urologist|chiropractor|general practitioner|family doctor|nutritionist]
            [ear nose and throat doctor|endocrinologist|rheumatologist|midwife|hand surgeon]
        """,
    ),
    "clinic": Kind(
        entity="organisation",
        private=True,
        own=3,
        recurrence=0.6,
        grammar="""
            {last_names} [clinic|medical center|hospital|family practice]
            {streets} <street_kind> [clinic|medical center|health center|urgent care]
            [st mary's|mercy|general|city|children's|memorial|saint luke's] hospital
            {cities} [general hospital|medical center|heart institute|children's clinic]
            {streets} [valley|ridge|view|hill] [hospital|health|dental|family practice]
        """,
    ),
    "pharmacy": Kind(
        entity="organisation",
        private=True,
        own=2,
        recurrence=0.65,
        grammar="""
            {streets} <street_kind> pharmacy
            {last_names}'s [pharmacy|drugstore|chemist]
            [corner|village|station|market|hospital|night|green cross|family] pharmacy
            {last_names} and {last_names} [chemists|pharmacy]
            the [drugstore|pharmacy] on {streets} <street_kind>
        """,
    ),
    "symptom": Kind(
        entity="symptom",
        private=True,
        own=4,
        recurrence=0.55,
        grammar="""
            {symptoms}
            [bad|terrible|mild|slight|constant|sudden|really bad|weird] {symptoms}
            {symptoms} and {symptoms}
        """,
    ),
    "condition": Kind(
        entity="condition",
        private=True,
        own=3,
        recurrence=0.7,
        grammar="""
            {conditions}
            [chronic|severe|mild|seasonal|early] {conditions}
        """,
    ),
    "allergen": Kind(
        entity="allergen",
        private=True,
        own=3,
        recurrence=0.6,
        grammar="""
            [penicillin|peanuts|latex|shellfish|pollen|dust|gluten|nuts|milk|eggs|cats|bee stings]
            {medicines}
            [soy|strawberries|dog hair|mold|sulfa drugs|tree nuts|wheat|sesame|nickel|perfume]
            [grass and ragweed|cow's milk|red wine|cold weather|insect bites|kiwi fruit]
        """,
    ),
    "body_part": Kind(
        entity="body",
        private=True,
        own=3,
        recurrence=0.4,
        grammar="""
            [back|knee|head|stomach|shoulder|neck|chest|throat|foot|hand|hip|ankle|eye|ear|wrist]
            [left|right] [knee|shoulder|arm|leg|foot|hip|eye|ear|hand|elbow|ankle|wrist|big toe]
            [lower|upper] [back|arm|abdomen|leg|jaw]
        """,
    ),
    "severity": Kind(
        entity="label",
        grammar="""
            [mild|severe|bad|moderate|really bad|unbearable|terrible|light|not too bad]
            [{small}|{small_word}] out of ten
        """,
    ),
    "vital": Kind(
        entity="label",
        grammar="""
            [blood pressure|blood sugar|weight|heart rate|temperature|pulse|glucose|oxygen level]
            [sleep|steps|water intake|cholesterol|resting heart rate|peak flow|body fat|mood]
        """,
    ),
    "reading": Kind(
        entity="number",
        private=True,
        own=5,
        recurrence=0.2,
        grammar="""
            [{pulse}|{glucose}|{number}]
            [one {number_word}|{number_word}]
            [98.{digit}|99.{digit}|101.{digit}|37.{digit}]
            {small_word} and a half
            [ninety eight|ninety nine|a hundred and one|thirty seven] point {digit_word}
            [{small}|{small_word}] thousand
        """,
    ),
    "blood_pressure": Kind(
        entity="number",
        private=True,
        own=5,
        recurrence=0.2,
        grammar="""
            {systolic} over {diastolic}
            one [twenty|thirty|forty|ten|fifteen] over [eighty|seventy|ninety|eighty five|sixty]
            {systolic}/{diastolic}
        """,
    ),
    "weight": Kind(
        entity="number",
        private=True,
        own=5,
        recurrence=0.2,
        grammar="""
            {weight} [pounds|kilos|]
            [one {number_word}|{number_word}] [pounds|kilos|and a half]
            {weight}.{digit}
        """,
    ),
    "insurer": Kind(
        entity="organisation",
        private=True,
        own=1,
        recurrence=0.9,
        grammar="""
            [evergreen|harborlight|blue heron|first meadow|northstar|common cause] [health|care|]
            {last_names} mutual
            {streets} [health plan|mutual|care plus]
        """,
    ),
    "member_number": Kind(
        entity="number",
        private=True,
        own=2,
        recurrence=0.7,
        grammar="""
            {letter}{digit}{digit}{digit}{digit}{digit}
            {digit}{digit}{digit}-{digit}{digit}{digit}
            {letter} {digit_word} {digit_word} {digit_word} {digit_word}
            {letter} {letter} {digit}{digit}{digit}{digit}
        """,
    ),
    "test": Kind(
        entity="label",
        private=True,
        own=3,
        recurrence=0.4,
        grammar="""
            [blood test|x ray|mri|blood work|covid test|cholesterol test|allergy test|biopsy]
            [urine test|ct scan|mammogram|ultrasound|ekg|thyroid panel|flu test|eye exam|dna test]
            [left|right] [knee|hip|shoulder|wrist] [x ray|mri|scan]
        """,
    ),
}
