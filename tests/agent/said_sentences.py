"""Sentences that people say to an agent: some that tell something worth keeping, and some that pass."""

from __future__ import annotations

KEEP = {
    "English": """
The spare key is under the blue pot.
I'm vegetarian now.
We got engaged!
The cat died last night.
I decided against the pool.
We will take the smaller garage.
I promise to water the plants.
Please answer me in short sentences from now on.
My brother is a nurse.
I hate olives.
Never book the middle seat for me.
We meet at the bakery from now on.
I would like a kitten.
I've quit my job.
I quit smoking.
My grandmother's maiden name is short.
I don't eat lamb.
Let's go with the oak floor.
I'm pregnant.
She had a baby boy.
Grandpa is in hospital.
The car is in the repair shop.
Our boiler is broken.
The ladder is at the neighbour's.
The fuse box hangs behind the coats.
The passports are in the desk drawer.
The bikes are in the shed.
I sold the boat.
We bought a caravan.
They moved to the coast.
He lost his job.
I'm left-handed.
I have high blood pressure.
I take a pill for my thyroid.
My knee hurts again.
I broke my wrist.
I'm afraid of dogs.
The dog is afraid of thunder.
The baby sleeps through now.
The landlord raised the rent.
I prefer trains to planes.
I like my coffee black.
We want a bigger kitchen.
I'd rather live in the country.
I wish for a new bicycle.
You may open my letters.
You must not tell my father about the gift.
Don't tell anybody about the party.
Call me by my nickname.
Always ask me before you book anything.
I'm learning the violin.
I play chess every evening.
I work from home now.
I work night shifts.
I'm a teacher.
My wife is a carpenter.
My son starts school in autumn.
My daughter got her driving licence.
The twins share a room.
My parents are divorced.
We broke up.
I got the flat!
We're moving in summer.
The wedding is in the orchard.
The party was postponed.
The meeting is off.
The painter comes in the morning.
The rubbish is collected on the corner.
The wifi password is on the fridge.
The alarm is switched off at night.
The tomatoes go in the sunny bed.
The roof leaks above the stairs.
The heating makes a strange noise.
The neighbours are on holiday.
The tenants have moved out.
The insurance pays for the window.
The bank refused the loan.
The doctor says it is a virus.
The vet found a tumour.
The test came back clean.
I passed the exam.
I failed my driving test.
I owe my sister some money.
I lent my drill to the neighbour.
I gave the piano away.
I signed the contract.
I cancelled the subscription.
I'm going to retire next year.
I will run a marathon.
We agreed on separate accounts.
We chose the green curtains.
It has to be gluten-free.
Only my wife may change the budget.
Nobody but me has the code.
I stopped drinking milk.
I'm on a diet.
I was born in a small village.
My favourite colour is teal.
My shoe size is large.
Someone stole my wallet.
The plumber wants to be paid in cash.
Our cat is deaf.
We named the puppy after grandpa.
My cousin passed away.
The lock on the back door sticks.
I've got a new job.
I'm moving out.
I can't stand loud music.
We're getting a dog.
No sugar in my tea, please.
You can throw the old chairs away.
Tell the children nothing about it.
Keep the letters secret.
Use metric units when you write to me.
Write to me in German from now on.
The window seat is what I want.
Dinner is at my mother's this year.
Sundays are for the family.
Both girls play the flute.
It turned out to be a hernia.
Turns out the roof is fine.
The blue folder holds the contracts.
Mum has a new phone.
The garage door code changed.
There is a leak in the bathroom.
I finally finished the novel.
Nothing with nuts for the kids.
We'd rather fly in spring.
One of the hens died.
Starting next week I work part-time.
Medicine goes in the top cupboard.
The old neighbours send their regards.
Her due date is in spring.
They got divorced.
Only cash at the bakery.
I owe you an apology for last week.
The cleaner has a key.
We put the tent in the attic.
I lost my glasses.
The mortgage is paid off.
""",
    "German": """
Der Ersatzschlüssel liegt unter dem roten Topf.
Ich bin jetzt Veganer.
Wir haben uns verlobt!
Die Katze ist gestern gestorben.
Ich habe mich gegen den Pool entschieden.
Wir nehmen die kleinere Garage.
Ich verspreche, die Blumen zu gießen.
Antworte mir ab jetzt in kurzen Sätzen.
Mein Bruder ist Pfleger.
Ich hasse Oliven.
Buche mir nie den Mittelplatz.
Ab jetzt treffen wir uns beim Bäcker.
Ich hätte gern ein Kätzchen.
Ich habe gekündigt.
Ich rauche nicht mehr.
Ich habe mit dem Rauchen aufgehört.
Ich esse kein Lamm.
Nehmen wir den Eichenboden.
Ich bin schwanger.
Sie hat einen Jungen bekommen.
Opa liegt im Krankenhaus.
Das Auto ist in der Werkstatt.
Unsere Heizung ist kaputt.
Die Leiter ist beim Nachbarn.
Der Sicherungskasten hängt hinter den Mänteln.
Die Pässe sind in der Schublade.
Die Räder stehen im Schuppen.
Ich habe das Boot verkauft.
Wir haben einen Wohnwagen gekauft.
Sie sind an die Küste gezogen.
Er hat seine Stelle verloren.
Ich bin Linkshänder.
Ich habe hohen Blutdruck.
Ich nehme eine Tablette für die Schilddrüse.
Mein Knie tut wieder weh.
Ich habe mir das Handgelenk gebrochen.
Ich habe Angst vor Hunden.
Der Hund fürchtet sich vor Gewitter.
Das Baby schläft jetzt durch.
Der Vermieter hat die Miete erhöht.
Ich fahre lieber mit dem Zug.
Ich trinke den Kaffee schwarz.
Wir wollen eine größere Küche.
Ich würde gern auf dem Land leben.
Ich wünsche mir ein neues Fahrrad.
Du darfst meine Briefe öffnen.
Sag meinem Vater nichts von dem Geschenk.
Erzähl niemandem von der Feier.
Nenn mich bei meinem Spitznamen.
Frag mich immer, bevor du etwas buchst.
Ich lerne Geige.
Ich spiele jeden Abend Schach.
Ich arbeite jetzt von zu Hause.
Ich arbeite nachts.
Ich bin Lehrerin.
Meine Frau ist Tischlerin.
Mein Sohn kommt im Herbst in die Schule.
Meine Tochter hat den Führerschein.
Die Zwillinge teilen sich ein Zimmer.
Meine Eltern sind geschieden.
Wir haben uns getrennt.
Ich habe die Wohnung bekommen!
Wir ziehen im Sommer um.
Die Hochzeit ist im Obstgarten.
Die Feier wurde verschoben.
Das Treffen fällt aus.
Der Maler kommt am Vormittag.
Der Müll wird an der Ecke abgeholt.
Das Passwort hängt am Kühlschrank.
Die Alarmanlage ist nachts aus.
Die Tomaten kommen ins sonnige Beet.
Das Dach ist über der Treppe undicht.
Die Heizung macht ein seltsames Geräusch.
Die Nachbarn sind im Urlaub.
Die Mieter sind ausgezogen.
Die Versicherung zahlt das Fenster.
Die Bank hat den Kredit abgelehnt.
Der Arzt sagt, es ist ein Virus.
Der Tierarzt hat einen Tumor gefunden.
Der Befund ist sauber.
Ich habe die Prüfung bestanden.
Ich bin durch die Fahrprüfung gefallen.
Ich schulde meiner Schwester Geld.
Ich habe dem Nachbarn die Bohrmaschine geliehen.
Ich habe das Klavier verschenkt.
Ich habe den Vertrag unterschrieben.
Ich habe das Abo abbestellt.
Ich gehe nächstes Jahr in Rente.
Ich laufe einen Marathon.
Wir haben uns auf getrennte Konten geeinigt.
Wir haben die grünen Vorhänge gewählt.
Es muss glutenfrei sein.
Nur meine Frau darf das Budget ändern.
Niemand außer mir kennt den Code.
Ich trinke keine Milch mehr.
Ich mache eine Diät.
Ich bin in einem kleinen Dorf geboren.
Meine Lieblingsfarbe ist türkis.
Jemand hat meinen Geldbeutel gestohlen.
Ich bin allergisch gegen Katzen.
Der Klempner will bar bezahlt werden.
Unsere Katze ist taub.
Wir haben den Hund nach Opa benannt.
Mein Cousin ist verstorben.
Das Schloss an der Hintertür klemmt.
Ich habe einen neuen Job.
Ich ziehe aus.
Laute Musik ertrage ich nicht.
Wir bekommen einen Hund.
Bitte keinen Zucker in meinen Tee.
Du kannst die alten Stühle wegwerfen.
Verrate den Kindern nichts davon.
Halte die Briefe geheim.
Schreib mir ab jetzt auf Englisch.
Den Fensterplatz will ich haben.
Weihnachten feiern wir bei meiner Mutter.
Sonntags gehört die Zeit der Familie.
Beide Mädchen spielen Flöte.
Es war ein Leistenbruch.
Im blauen Ordner sind die Verträge.
Mama hat ein neues Telefon.
Im Bad ist ein Leck.
Endlich ist der Roman fertig.
Nichts mit Nüssen für die Kinder.
Wir fliegen lieber im Frühling.
Eine Henne ist gestorben.
Ab nächster Woche arbeite ich halbtags.
Medizin gehört in den oberen Schrank.
Sie haben sich scheiden lassen.
Beim Bäcker geht nur Bargeld.
Die Putzhilfe hat einen Schlüssel.
Das Zelt haben wir auf den Dachboden gelegt.
Ich habe meine Brille verloren.
Der Kredit ist abbezahlt.
Morgens bin ich nicht zu erreichen.
Seit Ostern schlafe ich schlecht.
Ihr Termin ist im Frühling.
Hinten im Garten liegt der Schlauch.
Gestern wurde ich befördert.
Zum Geburtstag will ich nichts.
""",
    "French": """
La clé de secours est sous le pot rouge.
Je suis végétalien maintenant.
On s'est fiancés !
Le chat est mort cette nuit.
J'ai décidé de ne pas faire de piscine.
Nous prendrons le petit garage.
Je promets d'arroser les plantes.
Réponds-moi désormais en phrases courtes.
Mon frère est infirmier.
Je déteste les olives.
Ne réserve jamais la place du milieu.
Désormais on se retrouve à la boulangerie.
Je voudrais un chaton.
J'ai démissionné.
J'ai arrêté de fumer.
Je ne fume plus.
Je ne mange pas d'agneau.
On prend le parquet en chêne.
Je suis enceinte.
Elle a eu un petit garçon.
Papi est à l'hôpital.
La voiture est au garage.
Notre chaudière est en panne.
L'échelle est chez le voisin.
Le tableau électrique est derrière les manteaux.
Les passeports sont dans le tiroir.
Les vélos sont dans la remise.
J'ai vendu le bateau.
Nous avons acheté une caravane.
Ils ont déménagé sur la côte.
Il a perdu son travail.
Je suis gaucher.
J'ai de l'hypertension.
Je prends un cachet pour la thyroïde.
J'ai encore mal au genou.
Je me suis cassé le poignet.
J'ai peur des chiens.
Le chien a peur de l'orage.
Le bébé fait ses nuits.
Le propriétaire a augmenté le loyer.
Je préfère le train à l'avion.
Je bois mon café noir.
Nous voulons une cuisine plus grande.
J'aimerais vivre à la campagne.
Je rêve d'un nouveau vélo.
Tu peux ouvrir mon courrier.
Ne dis rien à mon père pour le cadeau.
Ne parle à personne de la fête.
Appelle-moi par mon surnom.
Demande-moi toujours avant de réserver.
J'apprends le violon.
Je joue aux échecs chaque soir.
Je travaille maintenant à la maison.
Je travaille de nuit.
Je suis professeure.
Ma femme est menuisière.
Mon fils entre à l'école à l'automne.
Ma fille a eu son permis.
Les jumeaux partagent une chambre.
Mes parents sont divorcés.
Nous nous sommes séparés.
J'ai eu l'appartement !
On déménage cet été.
Le mariage a lieu dans le verger.
La fête est reportée.
La réunion est annulée.
Le peintre vient le matin.
Les poubelles sont ramassées au coin.
Le mot de passe est sur le frigo.
L'alarme est coupée la nuit.
Les tomates vont dans le carré au soleil.
Le toit fuit au-dessus de l'escalier.
Le chauffage fait un drôle de bruit.
Les voisins sont en vacances.
Les locataires sont partis.
L'assurance paie la fenêtre.
La banque a refusé le prêt.
Le médecin dit que c'est un virus.
Le vétérinaire a trouvé une tumeur.
Les résultats sont bons.
J'ai réussi l'examen.
J'ai raté le permis.
Je dois de l'argent à ma sœur.
J'ai prêté la perceuse au voisin.
J'ai donné le piano.
J'ai signé le contrat.
J'ai résilié l'abonnement.
Je pars à la retraite l'an prochain.
Je vais courir un marathon.
Nous sommes convenus de comptes séparés.
Nous avons choisi les rideaux verts.
Il faut que ce soit sans gluten.
Seule ma femme peut changer le budget.
Personne d'autre n'a le code.
Je ne bois plus de lait.
Je suis au régime.
Je suis né dans un petit village.
Ma couleur préférée est le turquoise.
On m'a volé mon portefeuille.
Je suis allergique aux chats.
Le plombier veut être payé en liquide.
Notre chatte est sourde.
Nous avons appelé le chiot comme papi.
Mon cousin est décédé.
La serrure de derrière coince.
J'ai un nouveau travail.
Je déménage.
Je ne supporte pas la musique forte.
On va avoir un chien.
Pas de sucre dans mon thé.
Tu peux jeter les vieilles chaises.
Garde les lettres secrètes.
Écris-moi désormais en anglais.
C'est la place côté fenêtre que je veux.
Noël se passe chez ma mère.
Le dimanche est pour la famille.
Les deux filles jouent de la flûte.
C'était une hernie.
Les contrats sont dans le dossier bleu.
Maman a un nouveau téléphone.
Il y a une fuite dans la salle de bain.
J'ai enfin fini le roman.
Rien avec des noix pour les enfants.
Nous préférons partir au printemps.
Une des poules est morte.
À partir de lundi je travaille à mi-temps.
Les médicaments vont dans le placard du haut.
Ils ont divorcé.
Seulement du liquide à la boulangerie.
La femme de ménage a une clé.
Nous avons mis la tente au grenier.
J'ai perdu mes lunettes.
Le crédit est remboursé.
Le matin je ne suis pas joignable.
Depuis Pâques je dors mal.
Son terme est au printemps.
Au fond du jardin se trouve le tuyau.
Hier j'ai été promu.
Pour mon anniversaire je ne veux rien.
Ma belle-mère emménage chez nous.
""",
    "Spanish": """
La llave está debajo de la maceta.
He decidido no comprar el coche.
Prometo traer el pastel.
Odio las aceitunas.
Mi hermana está embarazada.
Quiero un gatito.
Nos hemos prometido.
El gato murió anoche.
No como cerdo.
A partir de ahora nos vemos en la biblioteca.
Dejé de fumar.
Soy alérgico a los gatos.
Vamos a mudarnos.
No le digas nada a mi madre.
Me gusta el café solo.
Compramos una caravana.
Prefiero el tren.
Respóndeme siempre en frases cortas.
El médico dice que es un virus.
Vendí el barco.
""",
    "Italian": """
La chiave è sotto il vaso.
Ho deciso di non comprare la macchina.
Prometto di portare la torta.
Odio le olive.
Mia sorella è incinta.
Voglio un gattino.
Ci siamo fidanzati!
Il gatto è morto ieri notte.
Non mangio maiale.
D'ora in poi ci vediamo in biblioteca.
Ho smesso di fumare.
Sono allergico ai gatti.
Ci trasferiamo in estate.
Non dire niente a mia madre.
Mi piace il caffè nero.
Abbiamo comprato una roulotte.
Preferisco il treno.
Rispondimi sempre con frasi brevi.
Il medico dice che è un virus.
L'auto è dal meccanico.
""",
    "Dutch": """
De sleutel ligt onder de pot.
Ik heb ontslag genomen.
We nemen het kleine huis.
Ik beloof de taart mee te brengen.
Mijn zus is zwanger.
Ik eet geen varken.
De kat is gisteren gestorven.
Ik wil een puppy.
Ik haat olijven.
Vanaf nu zien we elkaar in de bieb.
""",
    "Portuguese": """
A chave está debaixo do vaso.
Demiti-me.
Vamos ficar com o apartamento pequeno.
Prometo levar o bolo.
A minha irmã está grávida.
Não como porco.
O gato morreu ontem.
Quero um cachorro.
Odeio azeitonas.
A partir de agora vemo-nos na biblioteca.
""",
}

PASS = {
    "English": """
Thanks a lot.
That helps.
Great, thank you.
Go on then.
And how is that
Tell me more please.
Hm, why
Fine.
What else
Who knows.
I see.
Good morning!
How are you today
Sounds good.
Show me the list again.
Translate this into plain words.
Write a shorter version.
Make it more friendly.
Summarise the article for me.
Give me three ideas.
Can you check the weather
Explain that again please.
That was funny.
You are right.
Well done.
Interesting.
I don't know.
I'm not sure.
Not really.
No problem.
I have a question.
I need your help.
Let's see.
Let me think.
Wait a moment.
One more thing.
Try again.
Look it up please.
Search the web for that.
What do you think
Could you repeat that
I was just wondering.
I understand.
I think so too.
Okay then.
Yes please.
No thanks.
Never mind.
Good night.
See you tomorrow.
I'm back.
I'm here.
Are you there
Hello again.
That's not what I meant.
That looks wrong.
This is too long.
The text is too long.
The answer is wrong.
It is better now.
Perfect!
Make the title shorter.
Add a paragraph about that.
Remove the last line.
Read it to me.
Open the file please.
Run it again.
Stop.
Cancel that.
Do it.
Go ahead.
Continue please.
Which one is better
Why is the sky blue
Tell me a joke.
Sing me a song.
I'm bored.
What a day.
Ha, nice one.
I like that.
I love it!
That is great news.
Sorry, I was away.
Give me a moment.
I'll be right back.
I would like to know more.
I'd like to ask you something.
Can we talk about it
Let me know when it is done.
Tell me when you are ready.
Help me with this letter.
Check my spelling please.
Find me a good film.
Compare the two.
List the pros and cons.
Please be more precise.
It doesn't matter.
Whatever you say.
I hope so.
You too.
Alright, next.
Makes sense.
That makes sense.
Got it.
Oh wow.
Cool idea.
Anything else
Any other ideas
Say that in one sentence.
Keep it short.
Use bullet points.
Put it in a table.
Turn this into an email.
Give it another go.
Sum it up.
Shorter please.
In English please.
More details please.
Start over.
Put the headline first.
I meant the other one.
I mean the second version.
The second one is better.
I like the first one.
I don't get the last part.
That was fast.
You did well.
Not what I wanted.
Not quite.
Almost.
Yes, do that.
No, try again.
Is it raining
Does that work
Do you know a good recipe
How do I boil an egg
What should I cook tonight
Let's continue.
Let's talk about something else.
We can stop here.
""",
    "German": """
Vielen Dank.
Das hilft mir.
Super, danke dir.
Mach weiter.
Und wie geht das
Erzähl mir bitte mehr.
Hm, warum
Gut.
Was noch
Wer weiß.
Verstehe.
Guten Morgen!
Wie geht es dir heute
Klingt gut.
Zeig mir die Liste noch einmal.
Übersetze das in einfache Worte.
Schreib eine kürzere Fassung.
Mach es freundlicher.
Fass den Artikel zusammen.
Gib mir drei Ideen.
Kannst du das Wetter prüfen
Erklär das bitte noch einmal.
Das war lustig.
Du hast recht.
Gut gemacht.
Interessant.
Ich weiß nicht.
Ich bin nicht sicher.
Nicht wirklich.
Kein Problem.
Ich habe eine Frage.
Ich brauche deine Hilfe.
Mal sehen.
Lass mich überlegen.
Warte einen Moment.
Noch etwas.
Versuch es noch einmal.
Schlag das bitte nach.
Such im Netz danach.
Was meinst du
Kannst du das wiederholen
Ich habe mich nur gefragt.
Ich verstehe.
Das denke ich auch.
Na gut.
Ja bitte.
Nein danke.
Schon gut.
Gute Nacht.
Bis morgen.
Ich bin wieder da.
Ich bin hier.
Bist du da
Hallo noch mal.
Das meinte ich nicht.
Das sieht falsch aus.
Das ist zu lang.
Der Text ist zu lang.
Die Antwort ist falsch.
Jetzt ist es besser.
Perfekt!
Mach den Titel kürzer.
Füg einen Absatz dazu ein.
Streich die letzte Zeile.
Lies es mir vor.
Öffne bitte die Datei.
Starte es noch einmal.
Stopp.
Brich das ab.
Tu es.
Leg los.
Weiter bitte.
Welche ist besser
Warum ist der Himmel blau
Erzähl mir einen Witz.
Sing mir ein Lied.
Mir ist langweilig.
Was für ein Tag.
Haha, der war gut.
Das gefällt mir.
Ich liebe es!
Das sind gute Neuigkeiten.
Entschuldige, ich war weg.
Gib mir einen Moment.
Ich bin gleich wieder da.
Ich möchte mehr wissen.
Ich möchte dich etwas fragen.
Können wir darüber reden
Sag mir, wenn es fertig ist.
Sag Bescheid, wenn du so weit bist.
Hilf mir bei diesem Brief.
Prüf bitte meine Rechtschreibung.
Finde mir einen guten Film.
Vergleiche die beiden.
Liste die Vor- und Nachteile auf.
Bitte sei genauer.
Das macht nichts.
Wie du meinst.
Ich hoffe es.
Dir auch.
Alles klar, weiter.
Das ergibt Sinn.
Hab ich verstanden.
Oh wow.
Coole Idee.
Sonst noch etwas
Sag das in einem Satz.
Fass dich kurz.
Nimm Stichpunkte.
Mach eine Tabelle daraus.
Mach daraus eine Mail.
Kürzer bitte.
Auf Englisch bitte.
Mehr Einzelheiten bitte.
Fang von vorn an.
Stell die Überschrift nach oben.
Ich meinte die andere.
Ich meine die zweite Fassung.
Die zweite ist besser.
Mir gefällt die erste.
Den letzten Teil verstehe ich nicht.
Das ging schnell.
Das hast du gut gemacht.
Nicht ganz.
Fast.
Ja, mach das.
Nein, noch mal.
Regnet es gerade
Geht das so
Kennst du ein gutes Rezept
Wie koche ich ein Ei
Was soll ich heute kochen
Machen wir weiter.
Reden wir über etwas anderes.
Wir können hier aufhören.
Das war nett von dir.
Genau so.
Stimmt.
Ach so.
Keine Ahnung.
""",
    "French": """
Merci beaucoup.
Ça m'aide bien.
Super, merci à toi.
Vas-y, continue.
Et comment ça marche
Dis-m'en plus s'il te plaît.
Hm, pourquoi
Bien.
Quoi d'autre
Qui sait.
Je vois.
Bonjour !
Comment vas-tu aujourd'hui
Ça me va.
Montre-moi encore la liste.
Traduis ça en mots simples.
Écris une version plus courte.
Rends-le plus aimable.
Résume l'article pour moi.
Donne-moi trois idées.
Peux-tu vérifier la météo
Explique-moi ça encore une fois.
C'était drôle.
Tu as raison.
Bien joué.
Intéressant.
Je ne sais pas.
Je ne suis pas sûr.
Pas vraiment.
Pas de problème.
J'ai une question.
J'ai besoin de ton aide.
Voyons voir.
Laisse-moi réfléchir.
Attends un instant.
Encore une chose.
Essaie encore.
Vérifie ça s'il te plaît.
Cherche ça sur internet.
Qu'en penses-tu
Peux-tu répéter
Je me demandais juste.
Je comprends.
Je le pense aussi.
Bon d'accord.
Oui s'il te plaît.
Non merci.
Peu importe.
Bonne nuit.
À demain.
Je suis de retour.
Je suis là.
Tu es là
Salut encore.
Ce n'est pas ce que je voulais dire.
Ça a l'air faux.
C'est trop long.
Le texte est trop long.
La réponse est fausse.
C'est mieux maintenant.
Parfait !
Raccourcis le titre.
Ajoute un paragraphe là-dessus.
Enlève la dernière ligne.
Lis-le-moi.
Ouvre le fichier s'il te plaît.
Relance-le.
Arrête.
Annule ça.
Fais-le.
Allez, on y va.
Continue s'il te plaît.
Laquelle est la meilleure
Pourquoi le ciel est bleu
Raconte-moi une blague.
Chante-moi une chanson.
Je m'ennuie.
Quelle journée.
Haha, elle est bonne.
Ça me plaît.
J'adore !
C'est une bonne nouvelle.
Désolé, j'étais parti.
Donne-moi un instant.
Je reviens tout de suite.
Je voudrais en savoir plus.
J'aimerais te demander quelque chose.
On peut en parler
Dis-moi quand c'est fini.
Préviens-moi quand tu es prêt.
Aide-moi avec cette lettre.
Corrige mon orthographe s'il te plaît.
Trouve-moi un bon film.
Compare les deux.
Fais la liste des avantages.
Sois plus précis s'il te plaît.
Ça ne fait rien.
Comme tu veux.
J'espère.
Toi aussi.
D'accord, suivant.
C'est logique.
J'ai compris.
Oh là là.
Bonne idée.
Autre chose
Dis-le en une phrase.
Sois bref.
Utilise des puces.
Mets ça dans un tableau.
Fais-en un mail.
Plus court s'il te plaît.
En anglais s'il te plaît.
Plus de détails s'il te plaît.
Recommence.
Mets le titre en premier.
Je parlais de l'autre.
Je veux dire la deuxième version.
La deuxième est mieux.
J'aime bien la première.
Je n'ai pas compris la fin.
C'était rapide.
Tu as bien fait.
Pas tout à fait.
Presque.
Oui, fais ça.
Non, réessaie.
Il pleut
Ça marche comme ça
Tu connais une bonne recette
Comment cuire un œuf
Que cuisiner ce soir
Continuons.
Parlons d'autre chose.
On peut s'arrêter là.
C'est gentil.
Exactement.
C'est vrai.
Ah bon.
Aucune idée.
""",
}

NEAR = """
My mother is better.
Grandpa is better now.
I paid my part of the rent.
Ich nehme an der Reise teil.
We can start with the roof in May.
Let's start with the roof.
Machen wir die Küche neu.
Das Dach leckt.
That was Anna.
Yes, we got the flat.
No, the key is at the neighbour's.
Nein, der Schlüssel ist beim Nachbarn.
Fine, we take the red one.
What I want is a garden.
When I travel, use my work address.
Wenn ich reise, nimm die Büroadresse.
Wie Anna bin ich Vegetarierin.
Who owns the shed is my uncle.
Was ich brauche, ist Ruhe.
Help is needed in the garden on Sundays.
Open fires are forbidden in the yard.
Play rehearsals are on Thursdays.
List price was negotiated down by half.
Find out who took the ladder and never lend it again.
Sorry, I was in hospital.
Hi, we got engaged!
Hello, my name is Quentin.
Thanks, I passed the exam.
I need help with the stairs since the operation.
I'm tired all the time since the operation.
I'm happy with the green one.
Warte, Anna kommt doch nicht.
Wait, the meeting moved to the library.
Attends, le rendez-vous est annulé.
Show jumping is my sport.
Send Anna the invoice.
Schick Anna die Rechnung.
Only decaf for me.
Qui vient dîner, c'est ma tante.
Où j'habite, il neige.
Come d'abitudine siamo al mare.
Come sempre vado in montagna.
Que Anna venga me alegra.
"""
"""Sentences to keep that begin or end as a request, a question or small talk does."""


def sentences(text: str) -> list[str]:
    """The sentences of one language."""
    return text.strip().splitlines()
