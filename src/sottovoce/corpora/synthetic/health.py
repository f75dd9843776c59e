"""The health domain: prescriptions, reminders, appointments, symptoms, measurements."""

from sottovoce.corpora.synthetic.schema import Domain, Intent

HEALTH = Domain(
    name="health",
    slots={
        "address": "address",
        "allergen": "allergen",
        "birth_date": "birth_date",
        "body_part": "body_part",
        "city": "city",
        "clinic": "clinic",
        "condition": "condition",
        "count": "count",
        "date": "date",
        "date:past": "past_date",
        "doctor": "doctor",
        "dosage": "dosage",
        "duration": "duration",
        "email_address": "email",
        "frequency": "frequency",
        "insurer": "insurer",
        "measurement": "vital",
        "medicine": "medicine",
        "member_number": "member_number",
        "patient": "person",
        "pharmacy": "pharmacy",
        "phone_number": "phone",
        "reading": "reading",
        "reading:pressure": "blood_pressure",
        "reading:weight": "weight",
        "relation": "relation",
        "severity": "severity",
        "specialty": "specialty",
        "symptom": "symptom",
        "test": "test",
        "time": "time",
    },
    parts={
        "refill": "[refill|renew|reorder|order more|get more|order|re-up|restock]",
        "drug": "[{medicine}|{medicine} prescription|{medicine} meds|{dosage} {medicine}]",
        "forwho": "(for [my {relation}|{patient}])",
        "when": "[{date}|at {time}|{date} at {time}|at {time} {date}]",
        "with": "[with {doctor}|with the {specialty}|with my {specialty}|at {clinic}]",
        "visit": "[appointment|checkup|visit|check up|follow up|consultation|telehealth visit]",
        "log": "[log|record|write down|note|add|save|track|put down|enter]",
    },
    intents={
        "refill_prescription": Intent(
            weight=18,
            act="""
                refill my {medicine}
                <refill> my {medicine} (prescription)
                <refill> <drug> (<forwho>)
                [refill|renew] [my|all my] [prescription|prescriptions|meds] (at {pharmacy})
                <refill> my {medicine} at {pharmacy}
                <refill> my <drug> (and {medicine})
                <refill> {count} [bottles|boxes|packs|refills|months] of {medicine}
                get (me) a refill [of|on|for] (my) {medicine}
                <refill> [{patient}'s|my {relation}'s] {medicine} (prescription)
                [send|transfer|move] my {medicine} (prescription) to {pharmacy}
                [call|ask|tell] {pharmacy} [to refill|about|for] my {medicine}
                ask {doctor} [to renew|for more|for a refill of|to prescribe] (my) {medicine}
                have my {medicine} [delivered|sent|shipped] to {address}
                pick up my {medicine} (at|from) {pharmacy} ({date})
                <refill> {dosage} of {medicine} <forwho>
                <refill> prescription (number) {member_number}
                [set up|turn on|start] (auto) refills for (my) {medicine}
                <refill> the {medicine} {doctor} [prescribed|gave me|put me on] ({date:past})
                request a {duration} supply of {medicine}
                <refill> my {medicine} before {date}
                [get|order] my {condition} [medicine|meds|medication|prescription]
                put in a refill for my {medicine} and my {medicine}
            """,
            say="""
                {medicine} refill
                i [need|want] (more) {medicine}
                [i'm|i am] [out of|almost out of|running low on|down to my last] {medicine}
                i need a refill (of|on|for) (my) {medicine}
                my {medicine} [ran out|is running out|is almost gone|runs out {date}]
                {patient} [needs|is out of|wants] (more) {medicine}
                we're out of {medicine} again
                i only have {count} {medicine} left
                i lost my {medicine}
                (my) {medicine}
                {medicine} at {pharmacy}
                {medicine} for my {relation}
            """,
            ask="""
                can i [get|have] (some) more {medicine}
                [can|could] {doctor} renew my {medicine}
                do i have (any) refills left [on|for|of] (my) {medicine}
                how many {medicine} do i have left
                when can i [refill|pick up|get] my {medicine}
            """,
        ),
        "set_medicine_reminder": Intent(
            weight=11,
            do="""
                remind me to take my {medicine}
                remind me to take (my) {medicine} <when>
                remind me to take (my) (<drug>) {frequency}
                [set|make|create|add] a reminder to take {medicine} ({frequency}|<when>)
                remind me to take {dosage} of {medicine} ({frequency}|<when>)
                remind [{patient}|my {relation}] to take {medicine} ({frequency}|<when>)
                remind me to give [{patient}|my {relation}] {dosage} of {medicine} ({frequency})
                [set|make] a {medicine} [reminder|alarm] (for) <when>
                wake me [up|] at {time} (to take|for) my {medicine}
                remind me about my {medicine} in {duration}
                don't let me forget (to take) my {medicine} (<when>)
                [cancel|stop|delete|turn off] (my) {medicine} [reminder|reminders|alarm]
                [move|change|snooze] my {medicine} reminder (to {time}|by {duration}|for {duration})
                remind me to [pick up|buy|get] {medicine} (from {pharmacy}) (<when>)
                remind me to [check|measure|log] my {measurement} ({frequency}|<when>)
                [add|put] {medicine} {dosage} {frequency} to my [schedule|list|plan|routine]
                remind me to put {medicine} on my {body_part} {frequency}
                remind me to drink water {frequency}
            """,
            say="""
                {medicine} reminder ({frequency}|<when>)
                i [take|have to take|should take|need] {medicine} {frequency}
                {dosage} of {medicine} {frequency}
                {medicine} at {time}
                i keep forgetting my {medicine}
                my {medicine} at {time} {frequency}
                {dosage} (of) {medicine}
                my {medicine} {date}
                {medicine} {time}
            """,
        ),
        "log_dose": Intent(
            weight=9,
            act="""
                <log> {medicine}
                <log> that i took (my) {medicine} (at {time})
                <log> {dosage} (of) {medicine} (at {time}|{date:past})
                <log> my [morning|evening|{time}] {medicine}
                mark (my) {medicine} as [taken|done|skipped]
                <log> {dosage} of {medicine} for [{patient}|my {relation}]
                [skip|undo] my {medicine} ({date})
                <log> a dose of {medicine}
                check off {medicine}
            """,
            say="""
                i (just) took my {medicine}
                i [took|had|used] {dosage} of {medicine} (at {time}|{date:past}|{duration} ago)
                [took|had] {medicine} (at {time})
                i [forgot|missed|skipped] my {medicine} ({date:past})
                {patient} [took|had|got] (her|his) {medicine} (at {time})
                i gave [{patient}|my {relation}] {dosage} of {medicine} (at {time})
                i took {medicine} for my [{symptom}|{condition}|{body_part}]
                [done with|finished|i've had] my {medicine}
                i [doubled|stopped|started|finished] (taking) {medicine} {date:past}
                i took {count} {medicine}
                my {medicine} (at {time})
                {dosage} (of) {medicine}
                {medicine} {date:past}
            """,
        ),
        "check_dose": Intent(
            weight=7,
            ask="""
                did i take my {medicine} ({date:past})
                when did i (last) take (my) {medicine}
                [when|what time] [do|should] i take my {medicine} (next)
                how much {medicine} [should i take|do i take|can i take|can {patient} have]
                have i [taken|had] (my) {medicine} ({date:past}|already|yet)
                what [medicine|pills|meds] do i take <when>
                how often [do|should] i take {medicine}
                did [{patient}|my {relation}] take [her|his|the] {medicine} ({date:past})
                how many [pills|{medicine}|doses] [have i taken|did i take] ({date:past})
                what's my [dose|dosage] of {medicine}
                is it time for my {medicine} (yet)
                [can|should] i take {medicine} [with food|before bed|now|{frequency}|at {time}]
                what's next on my [medicine|pill] [list|schedule]
                what did {doctor} prescribe [for my {condition}|for my {symptom}|{date:past}]
            """,
            act="""
                [show|read|list|check] (me) my [medicines|medications|meds|prescriptions|pills]
                check [when|if] i took (my) {medicine} ({date:past})
                [show|read] (me) my {medicine} [history|schedule|doses] (for {date:past})
            """,
            say="""
                next dose (of {medicine})
                my [meds|medications|pills] (for {date})
                i can't remember if i took my {medicine}
                my {medicine} ({date})
                {medicine} {date}
            """,
        ),
        "medicine_info": Intent(
            weight=7,
            ask="""
                what is {medicine}
                what are the side effects of {medicine}
                what's {medicine} [for|used for|good for]
                [can|does] {medicine} cause {symptom}
                [can i|is it safe to|is it okay to] take {medicine} with {medicine}
                is {medicine} safe [for children|during pregnancy|for kids|with {condition}]
                does {medicine} interact with [{medicine}|alcohol|grapefruit]
                [does|will] {medicine} help (with) (my) [{symptom}|{condition}]
                how long does {medicine} [take to work|last|stay in your system]
                [what can i take|is there anything] for (a|my) [{symptom}|{condition}]
                can i drink (alcohol|coffee) [on|with|while taking] {medicine}
                is there a generic (version|for) (of) {medicine}
                how much (does|is) {medicine} (cost) (at {pharmacy}|with {insurer})
                is {dosage} of {medicine} too much
                what happens if i [miss|skip|double] a dose of {medicine}
                can my {relation} take {medicine} [with|for] {condition}
                is {medicine} covered by {insurer}
            """,
            act="""
                [tell me about|look up|read about|explain|find out about] {medicine}
                [tell|show|give] me the side effects of {medicine}
                compare {medicine} (and|with|to) {medicine}
                [check|look up] interactions [between|of] {medicine} and {medicine}
            """,
            say="""
                {medicine} (side effects|dosage|interactions)
                {medicine} and {medicine}
                {medicine} for {condition}
                {medicine}
                {condition}
            """,
        ),
        "book_appointment": Intent(
            weight=9,
            act="""
                [make|book|schedule|set up|get|arrange] an appointment with {doctor}
                [make|book|schedule|get] (me) a <visit> <with> (<when>)
                [make|book|schedule] an appointment <forwho> <with> (<when>)
                see [{doctor}|a {specialty}|the {specialty}|my {specialty}] (<when>)
                [book|schedule] (me) (in) <with> [{date}|for {date}|at {time}]
                [book|schedule] a {test} (at {clinic}) (<when>)
                [book|schedule] [{patient}|my {relation}] a <visit> <with> (<when>)
                [make|book] an appointment about my [{symptom}|{condition}|{body_part}] (<with>)
                [call|ask] {clinic} [for|about] an appointment (<when>)
                get a flu shot (at [{pharmacy}|{clinic}]) ({date})
                [find|get] (me) the [next|first|earliest] [appointment|opening|slot] <with>
                book {doctor} {date} {time}
                schedule my {test} [on|for] {date} with {insurer}
            """,
            say="""
                i need (to make) an appointment (<with>) (<when>)
                i [need|have|want] to see [{doctor}|a {specialty}|someone] (about my {symptom})
                appointment <with> (<when>)
                {patient} needs (to see) a {specialty}
                my {relation} needs an appointment <with>
                {doctor} {date}
                {doctor}
                a {test} ({date})
                {specialty} {date}
            """,
            ask="""
                [can|could] i [see|get in with] {doctor} <when>
                does {doctor} have [anything|any openings|time] <when>
                when [can i see|is the next opening with] {doctor}
                is {doctor} [free|available|in] <when>
            """,
        ),
        "change_appointment": Intent(
            weight=5,
            act="""
                cancel my appointment (<with>)
                [cancel|delete|call off] my <visit> <with> ({date})
                [move|reschedule|change|push|postpone] my <visit> <with> to <when>
                [reschedule|move|change] my {date} appointment (to <when>)
                [cancel|move] [{patient}'s|my {relation}'s] appointment (<with>) ({date})
                [confirm|check in for] my <visit> <with> ({date})
                [move|change] my {test} to <when>
                tell {clinic} i'm [running late|going to be late|not coming|cancelling] ({date})
            """,
            say="""
                i [can't|can not|won't] make it to my <visit> <with> ({date})
                i [need|have] to [cancel|reschedule|move] my (<visit>) (<with>) ({date})
                cancel {date}
                {doctor} can't see me {date}
                my {date} appointment
                {doctor} {date}
            """,
        ),
        "show_appointments": Intent(
            weight=5,
            ask="""
                when is my (next) appointment (<with>)
                [what|which] appointments do i have ({date})
                do i have [an appointment|a <visit>|anything] ({date}|<with>)
                [what time|where] is my <visit> <with> ({date})
                when [do i see|am i seeing|is my {test} with] {doctor}
                when is [{patient}'s|my {relation}'s] (next) [<visit>|{test}]
                who am i seeing {date}
                when did i last see {doctor}
                what's {clinic}'s [address|number|phone number]
            """,
            act="""
                [show|list|read|check] (me) my appointments ({date}|for {date}|<with>)
                [show|tell] me when i see {doctor}
                [give me|get] directions to [{clinic}|{doctor}'s office|{address}]
            """,
            say="""
                (my) appointments ({date})
                next appointment (<with>)
                {date} appointments
                {doctor} ({date})
                my {test}
            """,
        ),
        "log_symptom": Intent(
            weight=9,
            say="""
                i have {symptom}
                i have a [bad|terrible|] {symptom}
                [i have|i've got|i've had] {symptom} (for {duration}|since {date:past})
                my {body_part} hurts
                my {body_part} [hurts|is sore|is swollen|aches|itches|is numb|is killing me]
                my {body_part} [has been|is] {severity} (since {date:past}|for {duration})
                [i'm feeling|i feel] [dizzy|sick|tired|terrible|{severity}] ({date:past})
                [{patient}|my {relation}] has (a|had) {symptom} (for {duration}|since {date:past})
                i [woke up with|got|keep getting] {symptom} ({date:past}|after taking {medicine})
                {symptom} (in my {body_part}) ({severity})
                i have {severity} {symptom} in my {body_part}
                the {symptom} is [back|gone|worse|better|{severity}] ({date:past})
                {medicine} [gives me|gave me|is giving me] {symptom}
                i think i have {condition}
                my {condition} is [acting up|back|worse|{severity}] ({date:past})
                pain in my {body_part} (is) {severity}
                my {body_part}
                {condition}
            """,
            act="""
                <log> (a) {symptom} (at {time}|{date:past}|for [{patient}|my {relation}])
                <log> {symptom} {severity}
                <log> that my {body_part} [hurts|is {severity}|has {symptom}]
                tell {doctor} (that) [i have {symptom}|my {body_part} hurts|about my {symptom}]
                <log> {symptom} as a symptom of {condition}
            """,
        ),
        "log_measurement": Intent(
            weight=7,
            act="""
                <log> my {measurement}
                <log> (a) (blood pressure) (of) {reading:pressure} ({date:past})
                <log> my weight [as|at] {reading:weight}
                <log> my {measurement} [as|at|of|is] {reading}
                <log> (a) {measurement} (of) {reading} (at {time}|{date:past})
                <log> {reading} (for|as) (my) {measurement}
                <log> {reading}
                <log> [{patient}'s|my {relation}'s] {measurement} [as|at] {reading}
                [set|change] my {measurement} goal to {reading}
                <log> {duration} of [sleep|exercise|walking|running|yoga] ({date:past})
            """,
            say="""
                my {measurement} is {reading}
                my blood pressure [is|was] {reading:pressure} ({date:past}|at {time})
                my {measurement} [was|is] {reading} ({date:past}|at {time})
                {measurement} {reading}
                {reading}
                [{patient}'s|my {relation}'s] {measurement} [is|was] {reading}
                i [weigh|weighed] {reading:weight} ({date:past})
                i [slept|walked|exercised|worked out] (for) {duration} ({date:past})
                {reading} after taking {medicine}
                my {measurement}
            """,
        ),
        "check_measurement": Intent(
            weight=5,
            ask="""
                what's my {measurement}
                what [is|was] my [last|latest|average|] {measurement} ({date:past})
                how is my {measurement} ({date:past}|doing|compared to {date:past})
                is [{reading}|my {measurement}] [normal|high|too high|okay|low] (<forwho>)
                what should my {measurement} be (with {condition})
                has my {measurement} [gone up|gone down|improved|changed] (since {date:past})
                how [much did i weigh|did i sleep|many steps did i take] ({date:past})
                when did i last [check|measure|log] my {measurement}
                what was [{patient}'s|my {relation}'s] {measurement} ({date:past})
                is [a {measurement} of {reading}|{reading:pressure}] [normal|bad|high|dangerous]
            """,
            act="""
                [show|check|read] (me) my {measurement} (history|chart) (since {date:past})
                compare my {measurement} [with|to] {date:past}
                send my {measurement} (readings) to {doctor}
            """,
            say="""
                (my) {measurement} ({date:past})
                {measurement} history
            """,
        ),
        "find_doctor": Intent(
            weight=5,
            act="""
                find (me) a {specialty}
                [find|look for|search for|get] (me) a {specialty} [in|near] [{city}|{address}]
                [find|recommend] (me) a (good) [doctor|{specialty}|specialist] for {condition}
                find a {specialty} [who takes|that takes|covered by|in network with] {insurer}
                [find|look up|show] (me) {doctor} (at {clinic}|in {city})
                [find|show] (me) [a|the nearest] [hospital|clinic|urgent care] (in {city})
                [call|phone|ring] [{doctor}|{clinic}|my {specialty}] (at {phone_number})
                [message|email|text] {doctor} (at {email_address}) (about my {symptom})
                find [{patient}|my {relation}] a {specialty} (in {city})
            """,
            ask="""
                where is the [nearest|closest] [{specialty}|hospital|clinic|urgent care]
                [who|which doctor] [should i see|treats|can help with] (for) [{condition}|{symptom}]
                is there a (good) {specialty} [in|near] [{city}|{address}]
                does {doctor} [take|accept] {insurer}
                what's {doctor}'s (phone) number
                is {doctor} any good
                where does {doctor} work
            """,
            say="""
                i [need|want] a {specialty} (in {city})
                i need a second opinion on my {condition}
                {specialty} (near me|in {city})
                {doctor}
                {clinic}
            """,
        ),
        "find_pharmacy": Intent(
            weight=5,
            act="""
                find (me) [a|the nearest|the closest|an open] pharmacy (in {city}|near {address})
                [find|show] (me) a pharmacy [open|that's open] [{date}|at {time}|now|late]
                [call|phone|ring] {pharmacy} (at {phone_number})
                [find|check|see] who has {medicine} in stock (in {city})
                [switch|change] my pharmacy to {pharmacy}
                [navigate|take me|directions] to {pharmacy}
            """,
            ask="""
                is {pharmacy} open ({date}|at {time})
                what time does {pharmacy} [open|close] ({date})
                where is [{pharmacy}|the nearest pharmacy|the closest drugstore]
                does {pharmacy} [have|sell|carry|stock] {medicine}
                where can i [buy|get|find] {medicine} (in {city})
                what's {pharmacy}'s (phone) number
                which pharmacy is open (on) {date}
            """,
            say="""
                {pharmacy} [hours|number|address]
                pharmacy near [{address}|me|{city}]
                {pharmacy}
            """,
        ),
        "order_status": Intent(
            weight=5,
            ask="""
                is my {medicine} ready
                is my [prescription|order|refill|{medicine}] ready (at {pharmacy}|for pickup|yet)
                where is my {medicine} (order)
                when will my {medicine} [arrive|be ready|be here|get to {address}]
                did {pharmacy} [fill|get|send] my [prescription|{medicine}|refill]
                did {doctor} [send|call in] my {medicine}
                what's the status of my [order|{medicine}|refill|order {member_number}]
                has [{patient}'s|my {relation}'s] {medicine} [shipped|arrived] (yet)
                how much longer for my {medicine}
            """,
            act="""
                [check|track] (on) my [{medicine}|prescription|order|refill] (at {pharmacy})
                track order {member_number}
                cancel my {medicine} (order|refill)
                [change|update] the delivery address for my {medicine} to {address}
            """,
            say="""
                {medicine} order
                my {medicine} [never came|hasn't arrived|isn't ready|is late]
                order status
                my {medicine}
                {pharmacy} (order)
            """,
        ),
        "test_results": Intent(
            weight=4,
            ask="""
                are my {test} results [in|back|ready] (yet)
                what [were|are] (the) results of my {test} (from {date:past})
                did {doctor} [send|get|see] my {test} (results)
                when will i get my {test} results
                what did my {test} [say|show] ({date:past})
                are [{patient}'s|my {relation}'s] {test} results [in|back]
                what was my {measurement} [on|in] my (last) {test}
            """,
            act="""
                [show|read|check|get] (me) my {test} (results) (from {date:past}|from {clinic})
                [send|forward|email] my {test} (results) to [{doctor}|{email_address}|{clinic}]
                [show|check] [{patient}'s|my {relation}'s] {test} results
            """,
            say="""
                (my) {test} (results)
                i had a {test} (at {clinic}) {date:past}
                i'm waiting for my {test} (from {doctor})
                {test} {date:past}
            """,
        ),
        "emergency": Intent(
            weight=3,
            act="""
                call [an ambulance|emergency|for help|emergency services]
                [call|text|notify|alert] my [emergency contact|{relation}]
                get [help|an ambulance] (to {address})
                [send|call] an ambulance to {address}
                tell {patient} [i fell|to come now|i need help|i have {symptom}]
            """,
            say="""
                help
                i [need help|need an ambulance|fell|can't breathe|can't get up]
                [{patient}|my {relation}] [fell|passed out|can't breathe|took too much {medicine}]
                i [took|swallowed] too much {medicine}
                this is an emergency
                i think i'm having [a heart attack|a stroke|an allergic reaction|{symptom}]
                i'm having a reaction to {allergen}
            """,
            ask="""
                what do i do (about|for) [a {symptom}|a burn|a bee sting|an overdose of {medicine}]
                where is the nearest emergency room
                how do i [stop the bleeding|do cpr|treat a burn|use an epipen]
            """,
        ),
        "update_profile": Intent(
            weight=5,
            act="""
                [update|change|set] my [address|home address] (to {address})
                [update|change|set] my (phone) number (to {phone_number})
                [update|change] my email to {email_address}
                [update|change|add] my insurance to {insurer}
                [add|save] my (insurance) (member) (number|id) {member_number} (with {insurer})
                [set|change] my [date of birth|birthday] to {birth_date}
                [add|make|set] {patient} (as) my emergency contact (at {phone_number})
                [add|save] [{patient}|my {relation}] [to my account|as a patient] born {birth_date}
                [add|set] {doctor} as my {specialty}
                [set|make] {pharmacy} my [pharmacy|preferred pharmacy|default]
            """,
            say="""
                my name is {patient}
                my [date of birth|birthday] is {birth_date}
                i was born (on) {birth_date}
                my [address|new address] is {address}
                i [moved to|live at|live in] [{address}|{city}] (now)
                my (phone) number is {phone_number}
                my insurance is (with) {insurer} (number {member_number})
                {patient} was born (on) {birth_date}
                {patient} {birth_date}
                my email is {email_address}
                my (new) {specialty} is {doctor}
            """,
        ),
        "add_allergy": Intent(
            weight=4,
            act="""
                <log> an allergy to {allergen}
                <log> {allergen} [to my allergies|as an allergy|allergy]
                [add|note] {condition} to my [conditions|profile|chart|medical history]
                [remove|delete] {allergen} from my allergies
                <log> that [{patient}|my {relation}] is allergic to {allergen}
                tell {doctor} i'm allergic to {allergen}
            """,
            say="""
                i'm allergic to {allergen}
                [i'm|i am] allergic to {allergen} (and {allergen})
                [{patient}|my {relation}] is allergic to {allergen}
                i [have|was diagnosed with|got] {condition} ({date:past})
                {allergen} [gives me|makes me get] {symptom}
                {allergen} allergy
                {doctor} says i have {condition}
                {allergen}
                {condition}
            """,
            ask="""
                am i allergic to {allergen}
                what am i allergic to
                what allergies does [{patient}|my {relation}] have
                does {medicine} [have|contain] {allergen}
            """,
        ),
    },
)
